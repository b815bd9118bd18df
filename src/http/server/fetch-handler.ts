import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { SignalboxError } from '../../core/errors.ts'
import { type BodyLimits, nodesPath } from '../contract/index.ts'
import type { Authenticator, Incoming, OutgoingText } from './call.ts'
import { createListener } from './listener.ts'
import { requestIdOf } from './log/log.ts'
import type { NodeListener } from './node-http.ts'
import { bodyTooLarge, readInTime } from './request/body.ts'
import { InFlight } from './request/in-flight.ts'
import { replyProblem } from './request/problem.ts'
import { checkSite } from './request/site-guard.ts'
import { notMounted, splitTarget, withoutBase } from './router.ts'
import { type HandlerOptions, resolveHandlerOptions } from './server-options.ts'
import { createService, type Service } from './service.ts'
import { Upgrades } from './sockets/upgrade.ts'

/**
 * The whole API as one function from `Request` to `Response`, to mount in another app. Routes, checks and their order
 * are the same as on a port. The app is responsible for the port itself: headers and connections, their time-outs and
 * limits, and the Host header.
 */
export interface FetchHandler extends AsyncDisposable {
  (request: Request): Promise<Response>
  /** Handles Node's request and response: `app.use(handler.listener)`. Needs no `this`. */
  readonly listener: NodeListener
  /**
   * Accepts the WebSockets of nodes, for the `upgrade` event of the app's HTTP server. False: the path is not below
   * `basePath`, and nothing happened. Needs no `this`. A WebSocket needs a token even with `trust`, because the app's
   * middlewares do not check upgrades.
   */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean
  /** Refuses new requests, ends streams and waiting claims, and stops the background work. */
  close(): Promise<void>
}

/** Creates the function. Callers need tokens unless `trust` says that the app authenticates them. */
export function createHandler(options: HandlerOptions): FetchHandler {
  const { service: parts, basePath, trust, requestTimeoutMs, graceMs } = resolveHandlerOptions(options)
  const service = createService({ ...parts, basePath, loopback: false, trust, hosts: () => undefined })
  const inFlight = new InFlight()
  const upgrades = new Upgrades({
    authenticator: withToken(service.authenticator),
    checkSite: (incoming) => checkSite(incoming, undefined, undefined),
    gateways: new Map([[`${basePath}${nodesPath}`, service.nodeGateway]]),
    onRefused: ({ code, message }, socket) =>
      service.refusals.refused('upgrade_refused', {
        address: (socket as Partial<Socket>).remoteAddress,
        code,
        message,
      }),
    ...(parts.onError === undefined ? {} : { onError: parts.onError }),
  })
  let closing: Promise<void> | undefined

  async function handle(request: Request): Promise<Response> {
    inFlight.enter()
    try {
      const response = await answer(request)
      // Node could misread later bytes of this connection (see connection-order.ts). A `Request` gives no access to its
      // connection, but the app's server closes it after this header.
      if (request.headers.has('upgrade')) response.headers.set('connection', 'close')
      return response
    } finally {
      inFlight.leave()
    }
  }

  async function answer(request: Request): Promise<Response> {
    const url = new URL(request.url)
    const path = withoutBase(url.pathname, basePath)
    if (path === undefined) return respond(replyProblem(notMounted(url.pathname, basePath)), request.method)
    return serve(service, new FetchIncoming(request, url, path, requestTimeoutMs))
  }

  async function shut(): Promise<void> {
    // Nodes may report the ends of their tasks before their sockets close.
    const nodesGone = service.stopDispatch(graceMs).finally(() => upgrades.close())
    const ended = Promise.all([service.drain(graceMs), nodesGone])
    await inFlight.drained(graceMs)
    await ended
    await service[Symbol.asyncDispose]()
  }
  const close = () => {
    closing ??= shut()
    return closing
  }
  return Object.assign(handle, {
    listener: createListener({ service, inFlight, basePath, requestTimeoutMs }),
    upgrade(request: IncomingMessage, socket: Duplex, head: Buffer) {
      const [path] = splitTarget(request.url ?? '/')
      if (withoutBase(path, basePath) === undefined) return false
      upgrades.handle(request, socket, head)
      return true
    },
    close,
    [Symbol.asyncDispose]: close,
  })
}

/** Upgrades bypass the middlewares of the app, so `trust` does not apply to them. */
function withToken(authenticator: Authenticator): Pick<Authenticator, 'authenticate' | 'watch'> {
  return {
    async authenticate(incoming) {
      if (incoming.header('authorization') !== undefined) return authenticator.authenticate(incoming)
      throw new SignalboxError(
        'unauthorized',
        'A WebSocket needs a token here: send the header "Authorization: Bearer <token>", or offer it as a subprotocol.',
        { details: { authenticate: true } },
      )
    },
    watch: (principal, ended) => authenticator.watch(principal, ended),
  }
}

async function serve({ api, streams }: Service, incoming: FetchIncoming): Promise<Response> {
  const requestId = requestIdOf(incoming.header('x-request-id'))
  const outgoing = await api.answer(incoming, requestId)
  const id = { 'x-request-id': requestId }
  if (!('feed' in outgoing)) return respond(outgoing, incoming.method, id)
  const { status, headers } = outgoing
  return new Response(streams.toBody(outgoing), { status, headers: { ...headers, ...id } })
}

function respond({ status, headers, body }: OutgoingText, method: string, more?: object): Response {
  return new Response(method === 'HEAD' || status === 304 ? null : (body as string), {
    status,
    headers: { ...headers, ...more },
  })
}

const nothing = new Uint8Array(0)

class FetchIncoming implements Incoming {
  readonly #request: Request
  readonly #timeoutMs: number
  readonly method: string
  readonly path: string
  readonly query: string
  readonly #host: string
  /** A `Request` does not know its client's address. */
  readonly address = ''

  constructor(request: Request, { host, search }: URL, path: string, timeoutMs: number) {
    this.#request = request
    this.#timeoutMs = timeoutMs
    this.method = request.method
    this.#host = host
    this.path = path
    this.query = search.slice(1)
  }

  get signal(): AbortSignal {
    return this.#request.signal
  }

  get isGone(): boolean {
    return this.signal.aborted
  }

  header(name: string): string | undefined {
    const value = this.#request.headers.get(name)
    if (value !== null) return value
    // Headers of the wire that a `Request` does not show.
    if (name === 'host') return this.#host
    if (
      name === 'transfer-encoding' &&
      this.#request.body !== null &&
      !this.#request.headers.has('content-length')
    )
      return 'chunked'
    return undefined
  }

  async readBody({ maxBytes }: BodyLimits): Promise<Uint8Array> {
    const { body } = this.#request
    if (body === null) return nothing
    if (Number(this.#request.headers.get('content-length') ?? 0) > maxBytes) throw bodyTooLarge(maxBytes)
    const reader: ReadableStreamDefaultReader<Uint8Array> = body.getReader()
    try {
      return await readInTime(this.#timeoutMs, readAll(reader, maxBytes))
    } catch (error) {
      // Stop the client's upload.
      void reader.cancel().catch(() => {})
      throw error
    }
  }
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)
    size += value.byteLength
    if (size > maxBytes) throw bodyTooLarge(maxBytes)
    chunks.push(value)
  }
}
