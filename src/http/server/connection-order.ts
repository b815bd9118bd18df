import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { closeLingering, ignore } from './lingering-close.ts'
import { answerOnSocket } from './request/problem.ts'

/**
 * Keeps the order of requests and answers on one connection where Node does not:
 *
 * - When the server answers a request with `Connection: Upgrade` as an ordinary one, Node drops the rest of the bytes
 *   that it has read, and parses the next bytes as a new request. So a request with `Upgrade` that is not upgraded is
 *   the last of its connection: its answer says `Connection: close`, and the server reads and drops all later bytes. A
 *   request that asks to close its connection is treated the same.
 * - Node passes on an upgrade or a CONNECT while earlier requests are still unanswered. The server refuses it, after
 *   their answers. After the last request of a connection, the server drops it like any other bytes.
 * - Node closes a connection at once after its last answer. Here the connection lingers (lingering-close.ts).
 */

/** The answer that Node is writing to a socket; it may be the app's. Node has no public name for this property. */
interface Answering {
  readonly _httpMessage?: ServerResponse | null
}

/** Connections whose last request has arrived. */
const ending = new WeakSet<Duplex>()
/** Answers that wait for earlier ones. Node forgets them when it passes on their socket. */
const queued = new WeakMap<Duplex, Set<ServerResponse>>()

/**
 * Begins a request. False: it follows the last request of its connection, and the caller must not serve it. Every
 * adapter of Node's requests calls this first.
 */
export function beginRequest(request: IncomingMessage, response: ServerResponse): boolean {
  const { socket } = request
  if (ending.has(socket)) {
    dropRest(socket)
    return false
  }
  // Node calls this method after the last answer of a connection.
  socket.destroySoon = lingerAtEnd
  const current = currentAnswer(socket)
  if (current !== undefined && current !== response) enqueue(socket, response)
  if (request.headers.upgrade !== undefined || !response.shouldKeepAlive) endConnection(request, response)
  return true
}

/** Begins an upgrade or a CONNECT. False: it follows the last request of its connection, and must not be served. */
export function beginUpgrade(socket: Duplex): boolean {
  if (!ending.has(socket)) return true
  takeOver(socket)
  return false
}

/** Whether an earlier request of the connection is unanswered. */
export function hasEarlierRequest(socket: Duplex): boolean {
  return currentAnswer(socket) !== undefined
}

/** Whether the connection has begun a later request, whose answer follows on the same connection. */
export function hasLaterRequest(response: ServerResponse): boolean {
  const { socket } = response.req
  const last = [...(queued.get(socket) ?? [])].at(-1)
  return last !== undefined && last !== response
}

/** Refuses an upgrade or a CONNECT after the answers to all earlier requests, and closes the connection. */
export async function refuseInOrder(socket: Duplex, error: SignalboxError): Promise<void> {
  takeOver(socket)
  await earlierAnswers(socket)
  if (socket.writable) answerOnSocket(error, socket)
}

export function upgradeTooEarly(): SignalboxError {
  return invalidArgument(
    'The client sent the upgrade before an earlier request of the connection was answered. Open a new connection for it.',
  )
}

function currentAnswer(socket: Duplex): ServerResponse | undefined {
  return (socket as Answering)._httpMessage ?? undefined
}

function enqueue(socket: Duplex, response: ServerResponse): void {
  const responses = queued.get(socket) ?? new Set()
  queued.set(socket, responses.add(response))
  response.once('close', () => responses.delete(response))
}

async function earlierAnswers(socket: Duplex): Promise<void> {
  for (;;) {
    const response = currentAnswer(socket)
    if (response === undefined || socket.destroyed) return
    await new Promise<void>((resolve) => response.once('close', resolve))
  }
}

/**
 * Drives the answers of a connection that Node has passed on, as Node did before. Drops further bytes of the client.
 */
function takeOver(socket: Duplex): void {
  socket.on('error', ignore)
  socket.resume()
  socket.on('drain', () => currentAnswer(socket)?.emit('drain'))
  socket.on('close', () => {
    for (const response of queued.get(socket) ?? []) response.destroy()
  })
}

/** Makes a request the last of its connection. The connection ends after its answer. */
export function endConnection(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request
  ending.add(socket)
  response.shouldKeepAlive = false
  // The parser is still inside this request.
  process.nextTick(() => {
    if (request.complete) dropRest(socket)
    else request.once('end', () => dropRest(socket))
  })
}

/** Detaches the parser from the connection. The server still reads, so that it notices when the client leaves. */
function dropRest(socket: Socket): void {
  socket.removeAllListeners('data')
  socket.on('data', ignore)
}

function lingerAtEnd(this: Socket): void {
  closeLingering(this)
}
