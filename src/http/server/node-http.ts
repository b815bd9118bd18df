import type * as NodeHttp from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { SignalboxError } from '../../core/errors.ts'
import type { BodyLimits } from '../contract/index.ts'
import type { Incoming, OutgoingText } from './call.ts'
import { afterLinger, closeLingering, ignore } from './lingering-close.ts'
import { bodyTooLarge } from './request/body.ts'

/** An `import` of `node:http` would also load Node's fetch and WebSocket, which take 13 MB. */
export const http: typeof NodeHttp = process.getBuiltinModule('node:http')

/** A handler of Node's request and response. */
export type NodeListener = (
  request: IncomingMessage,
  response: ServerResponse,
  /** Called for a path that is not below `basePath`. Without it, the listener answers 404. */
  next?: (error?: unknown) => void,
) => void

const nothing = new Uint8Array(0)

/** Adapts a request of Node. */
export class NodeIncoming implements Incoming {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly method: string
  readonly path: string
  readonly query: string
  #gone: AbortController | undefined

  /** `url` is the path with the query. */
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
    // Only `set-cookie` is a list, and no client sends it.
    return this.#request.headers[name] as string | undefined
  }

  get address(): string {
    return this.#request.socket.remoteAddress ?? ''
  }

  /** Created on first use: most requests never need it. */
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

  /**
   * A client that ended its half counts as gone, because a client that died looks the same. It still gets its answer.
   */
  get isGone(): boolean {
    const { destroyed, closed, writableFinished } = this.#response
    return (destroyed || closed || this.#request.socket.readableEnded) && !writableFinished
  }

  readBody({ maxBytes }: BodyLimits): Uint8Array | Promise<Uint8Array> {
    const request = this.#request
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    if (length === undefined) return encoding === undefined ? nothing : read(request, maxBytes)
    if (Number(length) > maxBytes) throw bodyTooLarge(maxBytes)
    // A body that has arrived completely needs no listeners.
    if (request.readableLength === Number(length)) return request.read() ?? nothing
    return read(request, maxBytes)
  }
}

/** The Host header. Node keeps the first of several. This returns all of them, so that the site guard refuses them. */
export function hostOf({ rawHeaders, headers }: IncomingMessage): string | undefined {
  let hosts: string | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue
    hosts = hosts === undefined ? rawHeaders[at + 1]! : `${hosts}, ${rawHeaders[at + 1]}`
  }
  // An app around the server may have set or changed the header.
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
    // Without a listener, the error of a broken connection would end the process. `close` follows it.
    request.on('error', ignore)
    if (request.destroyed) cut()
  })
}

function clientGone(): SignalboxError {
  return new SignalboxError('request_timeout', 'The client closed the connection before its request ended.')
}

/** Writes an answer. `more` holds further headers: names and values alternate. */
export function writeText(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: OutgoingText,
  more: readonly string[],
): void {
  // The client has left, or has its answer on the bare socket.
  if (response.destroyed || response.headersSent) return
  const lines = linesOf(headers)
  // A 304 has no body, so its length would be wrong.
  const length = status === 304 ? [] : ['content-length', String(Buffer.byteLength(body))]
  const all = [...lines, ...more, ...length]
  response.on('error', ignore)
  response.writeHead(status, all)
  response.end(body)
  if (!request.complete) discardRest(request, response)
}

/**
 * Flattens headers: names and values alternate, which Node writes fastest. Most answers share a few sets of headers.
 */
export function linesOf(headers: Readonly<Record<string, string>>): readonly string[] {
  const known = flattened.get(headers)
  if (known !== undefined) return known
  const lines = Object.entries(headers).flat()
  flattened.set(headers, lines)
  return lines
}

const flattened = new WeakMap<object, readonly string[]>()

/**
 * Reads and drops the rest of a body whose request is answered. Keeps the connection if this takes less than two
 * seconds. The time begins when the answer is written, because earlier answers may delay it.
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

/** Requests that were answered before their whole body arrived, by connection. */
const answeredBodies = new WeakMap<Duplex, IncomingMessage>()

/**
 * Whether a connection is still sending the body of an answered request. A fault in that body gets no second answer.
 */
export function isInAnsweredBody(socket: Duplex): boolean {
  return answeredBodies.get(socket)?.complete === false
}
