import type * as NodeHttp from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { SignalboxError } from '../../core/errors.ts'
import type { BodyLimits } from '../contract/index.ts'
import type { Incoming, OutgoingText } from './call.ts'
import { afterLinger, closeLingering, ignore } from './lingering-close.ts'
import { bodyTooLarge } from './request/body.ts'

/** Requests and answers as Node has them. */

/** An `import` of `node:http` would also load Node's fetch and WebSocket, which take 13 MB. */
export const http: typeof NodeHttp = process.getBuiltinModule('node:http')

/** A part of an app that has Node's request and response. */
export type NodeListener = (
  request: IncomingMessage,
  response: ServerResponse,
  /** Called for what is not below `basePath`. Without it, that is answered with 404. */
  next?: (error?: unknown) => void,
) => void

const nothing = new Uint8Array(0)

/** A request of Node's. */
export class NodeIncoming implements Incoming {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly method: string
  readonly path: string
  readonly query: string
  #gone: AbortController | undefined

  /** `url` is what was asked for: its path, and what stands after the question mark. */
  constructor(request: IncomingMessage, response: ServerResponse, url: string = request.url ?? '') {
    this.#request = request
    this.#response = response
    this.method = request.method ?? ''
    const mark = url.indexOf('?')
    this.path = mark === -1 ? url : url.slice(0, mark)
    this.query = mark === -1 ? '' : url.slice(mark + 1)
  }

  header(name: string): string | undefined {
    if (name === 'host') return hostOf(this.#request)
    // The only one that comes as a list is `set-cookie`, which no client sends.
    return this.#request.headers[name] as string | undefined
  }

  get address(): string {
    return this.#request.socket.remoteAddress ?? ''
  }

  /** Made on demand: most requests never need it. */
  get signal(): AbortSignal {
    if (this.#gone === undefined) {
      const controller = new AbortController()
      this.#gone = controller
      const { socket } = this.#request
      const left = () => {
        socket.off('end', left)
        if (this.isGone) controller.abort(clientGone())
      }
      if (this.isGone || this.#response.closed) left()
      else {
        this.#response.once('close', left)
        socket.once('end', left)
      }
    }
    return this.#gone.signal
  }

  /** A client that has ended its half counts as gone: one that died looks the same. It still gets its answer. */
  get isGone(): boolean {
    const { destroyed, closed, writableFinished } = this.#response
    return (destroyed || closed || this.#request.socket.readableEnded) && !writableFinished
  }

  readBody({ maxBytes }: BodyLimits): Uint8Array | Promise<Uint8Array> {
    const request = this.#request
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    if (length === undefined) return encoding === undefined ? nothing : read(request, maxBytes)
    if (Number(length) > maxBytes) throw bodyTooLarge(maxBytes)
    // A body that is already here whole needs no listeners.
    if (request.readableLength === Number(length)) return request.read() ?? nothing
    return read(request, maxBytes)
  }
}

/** The Host header. Node keeps the first of several; here all of them are shown, so that the guard refuses them. */
export function hostOf({ rawHeaders, headers }: IncomingMessage): string | undefined {
  let hosts: string | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue
    hosts = hosts === undefined ? rawHeaders[at + 1]! : `${hosts}, ${rawHeaders[at + 1]}`
  }
  // An app around us may have set or changed it.
  return hosts?.includes(',') ? hosts : headers.host
}

function read(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const stop = () => {
      request.off('data', take).off('end', end).off('close', cut)
    }
    const take = (chunk: Buffer) => {
      size += chunk.length
      chunks.push(chunk)
      if (size <= maxBytes) return
      stop()
      reject(bodyTooLarge(maxBytes))
    }
    const end = () => {
      stop()
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size))
    }
    const cut = () => {
      stop()
      reject(clientGone())
    }
    request.on('data', take).on('end', end).on('close', cut)
    // Unheard, the error of a connection that breaks in the middle would end the process; `close` follows it.
    request.on('error', ignore)
    if (request.destroyed) cut()
  })
}

export function clientGone(): SignalboxError {
  return new SignalboxError('request_timeout', 'The client closed the connection before its request ended.')
}

/** Writes an answer. What comes beside its own headers stands in `more`, name and value by turns. */
export function writeText(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: OutgoingText,
  more: readonly string[],
): void {
  // The client has gone, or was already answered on its bare socket.
  if (response.destroyed || response.headersSent) return
  const lines = linesOf(headers)
  // An unchanged resource has the same length, and the client did not ask for it.
  const length = status === 304 ? [] : ['content-length', String(Buffer.byteLength(body))]
  const all = [...lines, ...more, ...length]
  response.on('error', ignore)
  response.writeHead(status, all)
  response.end(body)
  if (!request.complete) discardRest(request, response)
}

/** Name and value by turns, as Node writes them fastest. Most answers share one of a few sets of headers. */
export function linesOf(headers: Readonly<Record<string, string>>): readonly string[] {
  const known = flattened.get(headers)
  if (known !== undefined) return known
  const lines = Object.entries(headers).flat()
  flattened.set(headers, lines)
  return lines
}

const flattened = new WeakMap<object, readonly string[]>()

/**
 * Reads and drops the rest of a body whose request is answered. The connection is kept if that takes less than two seconds.
 * The time begins when the answer is out, because other answers may be ahead of it.
 */
export function discardRest(request: IncomingMessage, response: ServerResponse): void {
  request.resume()
  const begin = () => {
    if (request.complete) return
    answeredBodies.set(request.socket, request)
    const done = afterLinger(() => closeLingering(request.socket))
    request.once('end', done).once('close', done)
  }
  if (response.writableFinished) begin()
  else response.once('finish', begin)
}

/** Requests that were answered before all of their body came, by connection. */
const answeredBodies = new WeakMap<Duplex, IncomingMessage>()

/** Whether a connection is in the middle of a body whose request is already answered. A fault in that body gets no second answer. */
export function isInAnsweredBody(socket: Duplex): boolean {
  return answeredBodies.get(socket)?.complete === false
}
