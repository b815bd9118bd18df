import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { closeLingering, ignore } from './lingering-close.ts'
import { answerOnSocket } from './request/problem.ts'

/**
 * The order of requests and answers on one connection, where Node does not keep it:
 *
 * - After a request with `Connection: Upgrade` that is answered as an ordinary one, Node drops the rest of the bytes that it
 *   read, and parses the next bytes as a new request. So a request that carries `Upgrade` and is not upgraded is the last
 *   of its connection: its answer says `Connection: close`, and the bytes behind it are read and dropped. The same holds
 *   for a request that asks for the end of its connection.
 * - Node hands an upgrade or a CONNECT over while requests before it are still unanswered. It is refused, behind their
 *   answers. Behind the last request of a connection it is dropped like any other bytes.
 * - Node closes a connection at once after its last answer. Here it lingers (lingering-close.ts).
 */

/** The answer that Node is writing to a socket, also one of the app that mounts us. Node has no public name for it. */
interface Answering {
  readonly _httpMessage?: ServerResponse | null
}

/** Connections whose last request has come. */
const ending = new WeakSet<Duplex>()
/** Answers that wait behind others. Node forgets them when it hands their socket over. */
const queued = new WeakMap<Duplex, Set<ServerResponse>>()

/**
 * A request begins. False: it stands behind the last request of its connection, and must not be served. Everything that
 * answers requests of Node's calls this first.
 */
export function beginRequest(request: IncomingMessage, response: ServerResponse): boolean {
  const { socket } = request
  if (ending.has(socket)) {
    dropRest(socket)
    return false
  }
  // Node calls it after the last answer of a connection.
  socket.destroySoon = lingerAtEnd
  const underWay = answerUnderWay(socket)
  if (underWay !== undefined && underWay !== response) enqueue(socket, response)
  if (request.headers.upgrade !== undefined || !response.shouldKeepAlive) endConnection(request, response)
  return true
}

/** An upgrade or a CONNECT begins. False: it stands behind the last request of its connection, and must not be served. */
export function beginUpgrade(socket: Duplex): boolean {
  if (!ending.has(socket)) return true
  takeOver(socket)
  return false
}

/** Whether an earlier request of the connection is unanswered. */
export function isBehindAnother(socket: Duplex): boolean {
  return answerUnderWay(socket) !== undefined
}

/** Whether the connection has begun a request behind this one. Its answer comes later, on the same connection. */
export function isAheadOfAnother(response: ServerResponse): boolean {
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

export function upgradeBehindAnother(): SignalboxError {
  return invalidArgument(
    'The upgrade was sent before an earlier request of the connection was answered. Open a new connection for it.',
  )
}

function answerUnderWay(socket: Duplex): ServerResponse | undefined {
  return (socket as Answering)._httpMessage ?? undefined
}

function enqueue(socket: Duplex, response: ServerResponse): void {
  const responses = queued.get(socket) ?? new Set()
  queued.set(socket, responses.add(response))
  response.once('close', () => responses.delete(response))
}

async function earlierAnswers(socket: Duplex): Promise<void> {
  for (;;) {
    const response = answerUnderWay(socket)
    if (response === undefined || socket.destroyed) return
    await new Promise<void>((resolve) => response.once('close', resolve))
  }
}

/** Does what Node did for the answers of a connection until Node handed it over, and drops what the client sends. */
function takeOver(socket: Duplex): void {
  socket.on('error', ignore)
  socket.resume()
  socket.on('drain', () => answerUnderWay(socket)?.emit('drain'))
  socket.on('close', () => {
    for (const response of queued.get(socket) ?? []) response.destroy()
  })
}

/** Makes a request the last of its connection, which ends with its answer. */
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

/** Takes the connection from the parser. It is still read, so a client that goes is noticed. */
function dropRest(socket: Socket): void {
  socket.removeAllListeners('data')
  socket.on('data', ignore)
}

function lingerAtEnd(this: Socket): void {
  closeLingering(this)
}
