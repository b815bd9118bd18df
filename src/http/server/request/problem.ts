import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { errorCodes, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { problemOf, problemType } from '../../contract/index.ts'
import type { OutgoingText } from '../call.ts'
import { closeLingering } from '../lingering-close.ts'
import type { RefusalReason } from '../log/log.ts'
import { http, isInAnsweredBody } from '../node-http.ts'

/** Headers of every answer. It is data and never a page: nothing in it may load, run, be framed or be kept. */
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

/** Headers of a problem document, with those that belong to its code. */
export function problemHeadersOf(error: SignalboxError): Readonly<Record<string, string>> {
  const more = moreHeaders(error)
  return more === undefined ? problemHeaders : { ...problemHeaders, ...more }
}

function moreHeaders({ code, details }: SignalboxError): Record<string, string> | undefined {
  if (code === 'unauthorized') return { 'www-authenticate': 'Bearer realm="signalbox"' }
  if (code === 'method_not_allowed' && Array.isArray(details.allow))
    return { allow: details.allow.join(', ') }
  if (typeof details.retryAfterMs !== 'number') return undefined
  // Whole seconds, and never so few that the caller comes too early.
  return { 'retry-after': String(Math.max(1, Math.ceil(details.retryAfterMs / 1_000))) }
}

/** Turns whatever was thrown into an error with a code. What we did not foresee becomes `internal` and says nothing. */
export function asSignalboxError(error: unknown): SignalboxError {
  // Another copy of the package may have codes that this one does not know.
  if (isSignalboxError(error) && Object.hasOwn(errorCodes, error.code)) return error
  return new SignalboxError('internal', 'The server failed to answer. Its log has the error.', {
    cause: error,
  })
}

/** What Node says of a request that it could not read. Only for that: a store's error may look the same. */
function unreadable(error: Error): SignalboxError {
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
  // The parser's own complaints; their messages hold nothing of ours.
  if (code?.startsWith('HPE_')) return new SignalboxError('invalid_argument', message, { cause: error })
  return asSignalboxError(error)
}

/** What Node writes to a socket at the moment. */
interface UnderWay {
  readonly _httpMessage?: (ServerResponse & { readonly _headerSent?: boolean }) | null
}

/** Connections that are refused once the answers before the refusal are out. */
const awaitingRefusal = new WeakSet<Socket>()

/** Why Node gave up a connection; undefined when nothing was refused: its client has gone. */
export function refusalOf(error: Error, socket: Socket): RefusalReason | undefined {
  const { code } = error as NodeJS.ErrnoException
  // What comes after a refusal, or behind the last request of a connection, is not refused once more.
  if (socket.writableEnded || code === 'HPE_CLOSED_CONNECTION') return undefined
  const isInBody = (socket as UnderWay)._httpMessage?.req.complete === false
  if (code === 'HPE_HEADER_OVERFLOW') return 'oversized_head'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return isInBody ? 'request_timeout' : 'headers_timeout'
  if (code === 'HPE_INVALID_EOF_STATE') return 'cut_request'
  if (code?.startsWith('HPE_')) return 'parse_error'
  return isInBody ? 'cut_request' : undefined
}

/** Answers what never became a request (broken or late headers) on the bare socket, and closes it. */
export function answerClientError(error: Error, socket: Socket): void {
  const { code } = error as NodeJS.ErrnoException
  // The last answer was written. Whatever else the client sends, it has time to read that answer.
  if (socket.writableEnded) return
  const reply = (socket as UnderWay)._httpMessage
  const isAnother = reply?.req.complete === true
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy()
  // The request has its answer. The client would take a second one for the answer to another request.
  else if (isInAnsweredBody(socket)) closeLingering(socket)
  else if (!isAnother && reply?._headerSent) {
    // The answer to this very request is under way. A stream has no end to wait for.
    if (reply.writableEnded) reply.once('close', () => closeLingering(socket))
    else socket.destroy()
  } else if (!isAnother) answerOnSocket(unreadable(error), socket)
  else if (!awaitingRefusal.has(socket)) {
    // The answer under way belongs to an earlier request. The client must not take the refusal for it.
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

/** What goes back, ready to be written. Headers that do not depend on the answer are made once. */

const jsonHeaders: Readonly<Record<string, string>> = Object.freeze({
  ...answerHeaders,
  'content-type': 'application/json; charset=utf-8',
})

/** Of a stream: nothing on the way may hold back, change or keep what it tells. */
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

/** The problem document of an error, with the headers that belong to its code. */
export function replyProblem(error: SignalboxError): OutgoingText {
  const problem = problemOf(error)
  return { status: problem.status, headers: problemHeadersOf(error), body: JSON.stringify(problem) }
}
