import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { errorCodes, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { problemOf, problemType } from '../../contract/index.ts'
import type { OutgoingText } from '../call.ts'
import { closeLingering } from '../lingering-close.ts'
import type { RefusalReason } from '../log/log.ts'
import { http, isInAnsweredBody } from '../node-http.ts'

/** Headers of every answer. An answer is data, never a page: browsers must not load, run, frame or cache it. */
export const answerHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

const problemHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': problemType,
})

/** Headers of a problem document, including the headers of its error code. */
function problemHeadersOf(error: SignalboxError): Readonly<Record<string, string>> {
  const more = moreHeaders(error)
  return more === undefined ? problemHeaders : { ...problemHeaders, ...more }
}

function moreHeaders({ code, details }: SignalboxError): Record<string, string> | undefined {
  if (code === 'unauthorized') return { 'www-authenticate': 'Bearer realm="signalbox"' }
  if (code === 'method_not_allowed' && Array.isArray(details.allow))
    return { allow: details.allow.join(', ') }
  if (typeof details.retryAfterMs !== 'number') return undefined
  // Whole seconds, rounded up so that the caller does not retry too early.
  return { 'retry-after': String(Math.max(1, Math.ceil(details.retryAfterMs / 1_000))) }
}

/** Turns a thrown value into an error with a code. An unexpected error becomes `internal` and shows no details. */
export function asSignalboxError(error: unknown): SignalboxError {
  // Another copy of the package may have codes that this one does not know.
  if (isSignalboxError(error) && Object.hasOwn(errorCodes, error.code)) return error
  return new SignalboxError('internal', 'The server failed to answer. Its log has the error.', {
    cause: error,
  })
}

/** Returns the value, or throws `not_found` with this message. */
export function required<Value>(value: Value | undefined, message: string): Value {
  if (value !== undefined) return value
  throw new SignalboxError('not_found', message)
}

/** Translates Node's error about an unreadable request. Do not use it for other errors: a store's may look the same. */
function errorOfUnreadable(error: Error): SignalboxError {
  const { code, message } = error as NodeJS.ErrnoException
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new SignalboxError(
        'headers_too_large',
        'The headers are too large for this server. Send fewer or shorter ones.',
        {
          cause: error,
        },
      )
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new SignalboxError('request_timeout', 'The request took too long to arrive. Send it again.', {
        cause: error,
      })
  }
  // Errors of Node's parser. Their messages contain no internals of the server.
  if (code?.startsWith('HPE_')) return new SignalboxError('invalid_argument', message, { cause: error })
  return asSignalboxError(error)
}

/** The response that Node is writing to a socket. */
interface WritingSocket {
  readonly _httpMessage?: (ServerResponse & { readonly _headerSent?: boolean }) | null
}

/** Connections that the server refuses after the earlier answers are written. */
const awaitingRefusal = new WeakSet<Socket>()

/** Why Node gave up a connection; undefined when its client left and nothing was refused. */
export function refusalOf(error: Error, socket: Socket): RefusalReason | undefined {
  const { code } = error as NodeJS.ErrnoException
  // Bytes after a refusal, or after the last request of a connection, do not count as another refusal.
  if (socket.writableEnded || code === 'HPE_CLOSED_CONNECTION') return undefined
  const isInBody = (socket as WritingSocket)._httpMessage?.req.complete === false
  if (code === 'HPE_HEADER_OVERFLOW') return 'oversized_head'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return isInBody ? 'request_timeout' : 'headers_timeout'
  if (code === 'HPE_INVALID_EOF_STATE') return 'cut_request'
  if (code?.startsWith('HPE_')) return 'parse_error'
  return isInBody ? 'cut_request' : undefined
}

/** Answers a broken or late request head on the bare socket, and closes the socket. */
export function answerClientError(error: Error, socket: Socket): void {
  const { code } = error as NodeJS.ErrnoException
  // The last answer was written. The client gets time to read it, whatever else it sends.
  if (socket.writableEnded) return
  const reply = (socket as WritingSocket)._httpMessage
  const isWritingEarlierAnswer = reply?.req.complete === true
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy()
  // The request was answered. The client would take a second answer for the answer to another request.
  else if (isInAnsweredBody(socket)) closeLingering(socket)
  else if (!isWritingEarlierAnswer && reply?._headerSent) {
    // The server is writing the answer to this request. A stream has no end to wait for.
    if (reply.writableEnded) reply.once('close', () => closeLingering(socket))
    else socket.destroy()
  } else if (!isWritingEarlierAnswer) answerOnSocket(errorOfUnreadable(error), socket)
  else if (!awaitingRefusal.has(socket)) {
    // The server is writing the answer to an earlier request. The client must not take the refusal for it.
    awaitingRefusal.add(socket)
    reply.once('close', () => {
      awaitingRefusal.delete(socket)
      answerClientError(error, socket)
    })
  }
}

/** Writes a problem document to a bare socket and closes it. */
export function answerOnSocket(error: SignalboxError, socket: Duplex): void {
  const problem = problemOf(error)
  const body = JSON.stringify(problem)
  const headers = { 'content-length': String(Buffer.byteLength(body)), connection: 'close' }
  const lines = Object.entries({ ...problemHeadersOf(error), ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  socket.write(
    `HTTP/1.1 ${problem.status} ${http.STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`,
  )
  closeLingering(socket)
}

const jsonHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': 'application/json; charset=utf-8',
})

/** Headers of a stream: proxies must not buffer, change or cache its events. */
export const streamHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
})

export function replyJson(status: number, body: unknown): OutgoingText {
  return { status, headers: jsonHeaders, body: JSON.stringify(body) }
}

export function replyText(status: number, type: string, text: string): OutgoingText {
  return { status, headers: { ...answerHeaders, 'content-type': type }, body: text }
}

/** The problem document of an error, with the headers of its code. */
export function replyProblem(error: SignalboxError): OutgoingText {
  const problem = problemOf(error)
  return { status: problem.status, headers: problemHeadersOf(error), body: JSON.stringify(problem) }
}
