import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { errorCodes, isSignalboxError, SignalboxError } from '../core/errors.ts'

/** An error as it goes over the wire: an RFC 9457 problem document with the library's own code. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
}

/** The media type of a problem document. */
export const problemType = 'application/problem+json; charset=utf-8'

/** Headers of every answer. It is data and never a page: nothing in it may load, run, be framed or be kept. */
export const answerHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** The problem document of an error. */
export function problemOf(error: SignalboxError): Problem {
  const { status, meaning } = errorCodes[error.code]
  return {
    type: `urn:signalbox:error:${error.code}`,
    title: meaning,
    status,
    code: error.code,
    detail: error.message,
  }
}

/** Turns whatever was thrown into an error with a code. What we did not foresee becomes `internal` and says nothing. */
export function asSignalboxError(error: unknown): SignalboxError {
  // Another copy of the package may have codes that this one does not know.
  if (isSignalboxError(error) && Object.hasOwn(errorCodes, error.code)) return error
  const { code, statusCode, message } = readError(error)
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new SignalboxError('too_large', 'The body is larger than this server takes.', { cause: error })
    case 'HPE_HEADER_OVERFLOW':
      return new SignalboxError('headers_too_large', 'The headers are larger than this server takes.', {
        cause: error,
      })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new SignalboxError('request_timeout', 'The request did not arrive whole in time.', {
        cause: error,
      })
  }
  // The parser's and Fastify's own complaints about the client's request; their messages hold nothing of ours.
  if (code?.startsWith('HPE_') || (statusCode !== undefined && statusCode >= 400 && statusCode < 500)) {
    return new SignalboxError('invalid_argument', message ?? 'The request is malformed.', { cause: error })
  }
  return new SignalboxError('internal', 'The server failed to answer; its log says why.', { cause: error })
}

/** How long a client may take to read why it was cut. */
const lingerMs = 1_000

/** Answers what never became a request (broken or late headers) on the bare socket, and closes it. */
export function answerClientError(error: Error, socket: Socket): void {
  // A peer that is gone gets no answer, nor one to whom a reply is already on its way: it would land inside that.
  const reply = (socket as { _httpMessage?: { _headerSent?: boolean } | null })._httpMessage
  if (readError(error).code === 'ECONNRESET' || !socket.writable || reply?._headerSent) {
    socket.destroy()
    return
  }
  answerOnSocket(asSignalboxError(error), socket)
}

/** Writes a problem document to a bare socket and closes it. */
export function answerOnSocket(error: SignalboxError, socket: Duplex): void {
  const problem = problemOf(error)
  const body = JSON.stringify(problem)
  const headers = {
    ...answerHeaders,
    'content-type': problemType,
    'content-length': String(Buffer.byteLength(body)),
  }
  const lines = Object.entries({ ...headers, connection: 'close' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  // Nobody else listens to a socket that has left the server's hands, and an unheard error ends the process.
  socket.on('error', () => socket.destroy())
  socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`)
  // `end` closes our half only; a client that keeps the other half open would keep the socket.
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref()
  socket.once('close', () => clearTimeout(timer))
}

function readError(error: unknown): { code?: string; statusCode?: number; message?: string } {
  if (typeof error !== 'object' || error === null) return {}
  const { code, statusCode, message } = error as Record<string, unknown>
  return {
    ...(typeof code === 'string' && { code }),
    ...(typeof statusCode === 'number' && { statusCode }),
    ...(typeof message === 'string' && message !== '' && { message }),
  }
}
