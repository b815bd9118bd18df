import { once } from 'node:events'
import type { Server as HttpServerOfNode, IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { whole } from '../../core/options.ts'
import { nodesPath } from '../contract/index.ts'
import {
  beginRequest,
  beginUpgrade,
  endConnection,
  isAheadOfAnother,
  refuseInOrder,
} from './connection-order.ts'
import { isLingering } from './lingering-close.ts'
import { type RefusalReason, requestIdOf } from './log/log.ts'
import { http, linesOf, NodeIncoming, writeText } from './node-http.ts'
import { answerClientError, refusalOf } from './request/problem.ts'
import { checkSite } from './request/site-guard.ts'
import { InFlight, Unsent } from './request/unsent.ts'
import { type ResolvedServerOptions, resolveServerOptions, type ServerOptions } from './server-options.ts'
import { createService, type Service } from './service.ts'
import { isWebSocketUpgrade, Upgrades } from './sockets/upgrade.ts'
import { httpTransport } from './streams/transport.ts'
import { checkTls, createTlsServer, mustLast, type TlsOptions, type TlsServer } from './tls.ts'

/**
 * The server: one port, guarded before it is useful. Every answer is data, every failure a problem document, whatever
 * the request looked like. Node keeps the port and the connections; which route a request has and what becomes of
 * it is decided in api.ts, for this adapter as for the other (fetch-handler.ts).
 *
 * It closes in the order that loses nothing: first it says that it is not ready, then streams end with a word on when
 * to come again and waiting claims are let go, then the requests that have begun come to their end, then what is left
 * is cut, and last the loops and services behind it stop.
 */
export interface Server extends AsyncDisposable {
  /** Opens the port and says where; asking again gives the same answer. */
  listen(): Promise<{ readonly url: string }>
  /**
   * Replaces the certificates of a server with TLS, for new connections; open ones are kept. Throws when they do not match
   * or have expired; the server then keeps the ones it has.
   */
  setTls(tls: TlsOptions): void
  /** Drains and closes; asking again waits for the same end. */
  close(options?: CloseOptions): Promise<void>
}

/** How to close. */
export interface CloseOptions {
  /** How long to wait for requests that have begun. @default the server's graceMs */
  readonly graceMs?: number
}

/** Makes a server; `listen` opens its port. */
export function createServer(options: ServerOptions): Server {
  return new HttpServer(resolveServerOptions(options))
}

/**
 * How many connections may wait to be accepted; the machine may allow fewer. When a server comes back, all its nodes and
 * streams connect at once. A client beyond this number gets no answer, and tries again after a second, then after three.
 */
const backlog = 4_096

/** How long a server that closes waits for the clients of its last answers to close, so that no reset takes an answer. */
const lastLingerMs = 200

class HttpServer implements Server {
  readonly #options: ResolvedServerOptions
  readonly #server: HttpServerOfNode
  readonly #service: Service
  readonly #upgrades: Upgrades
  readonly #inFlight = new InFlight()
  readonly #unsent: Unsent
  readonly #givenUp = new WeakSet<Socket>()
  /** All that are open, also those that Node has handed over and those whose TLS handshake has not ended. */
  readonly #connections = new Set<Socket>()
  #tls: TlsServer | undefined
  readonly #leave = () => this.#inFlight.leave()
  /** The values of the Host header that are ours; known once the port is. */
  #ownHosts: ReadonlySet<string> = new Set()
  #listening: Promise<{ readonly url: string }> | undefined
  #closing: Promise<void> | undefined

  constructor(options: ResolvedServerOptions) {
    this.#options = options
    const { service, isLoopback } = options
    this.#service = createService({
      ...service,
      loopback: isLoopback,
      trust: false,
      hosts: () => this.#ownHosts,
    })
    const { refusals } = this.#service
    this.#unsent = new Unsent({
      onCut: (answer) => refusals.refused('cut_stream', { address: addressOf(answer) }),
    })
    const { authenticator } = this.#service
    this.#upgrades = new Upgrades({
      // A fleet may share one token, so its sockets are bounded by the caps on connections alone.
      authenticator,
      checkSite: (incoming) => checkSite(incoming, undefined, this.#ownHosts),
      gateways: new Map([[nodesPath, this.#service.nodeGateway]]),
      onRefused: (error, socket) => this.#refused('upgrade_refused', error, socket),
      ...(service.onError === undefined ? {} : { onError: service.onError }),
    })
    this.#server = this.#createHttpServer()
    this.#answerWhatNodeWould()
  }

  listen(): Promise<{ readonly url: string }> {
    if (this.#closing) {
      const error = new SignalboxError('closed', 'This server was closed; make a new one with createServer.')
      return Promise.reject(error)
    }
    this.#listening ??= this.#open()
    return this.#listening
  }

  setTls(tls: TlsOptions): void {
    if (this.#tls === undefined)
      throw invalidArgument('This server speaks plain HTTP. Give createServer the option tls.', 'tls')
    mustLast(checkTls(tls))
    this.#tls.replace(tls)
  }

  close({ graceMs = this.#options.graceMs }: CloseOptions = {}): Promise<void> {
    whole('graceMs', graceMs)
    this.#closing ??= this.#shut(graceMs)
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #createHttpServer(): HttpServerOfNode {
    const { requestTimeoutMs, keepAliveMs, headersTimeoutMs, timeoutCheckMs, maxHeaderBytes, tls } =
      this.#options
    const options = {
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: headersTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      maxHeaderSize: maxHeaderBytes,
      // A missing Host is answered by the guard; Node's own answer is no problem document.
      requireHostHeader: false,
      // Others that name an upgrade, as clients that hope for HTTP/2 do, are ordinary requests.
      shouldUpgradeCallback: isWebSocketUpgrade,
    }
    const serve = (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response)
    if (tls === undefined) {
      const server = http.createServer(options, serve)
      // A client that has ended its half still gets the answers to what it asked. Node's types do not know the property.
      return Object.assign(server, { httpAllowHalfOpen: true })
    }
    this.#tls = createTlsServer(tls, options, serve, (socket, error) =>
      this.#refused('tls_handshake', error, socket),
    )
    return this.#tls.server
  }

  /** Some requests never become any: Node answers them without a document, or drops them. */
  #answerWhatNodeWould(): void {
    const server = this.#server
    this.#service.admission.attach(server, (socket, error) =>
      this.#refused('connection_limit', error, socket),
    )
    for (const event of ['connection', 'secureConnection']) server.prependListener(event, this.#track)
    this.#upgrades.attach(server)
    // Node would leave out what stands behind the first 2,000, in silence; their bytes bound them already.
    server.maxHeadersCount = 0
    // An expectation that we do not know may be ignored (RFC 9110, 10.1.1).
    server.on('checkExpectation', (request, reply) => server.emit('request', request, reply))
    server.on('clientError', (error, socket) => this.#giveUp(error, socket as Socket))
    server.on('connect', (_request, socket) => {
      if (!beginUpgrade(socket)) return
      const error = new SignalboxError('not_found', 'This server is not a proxy and does not accept CONNECT.')
      this.#refused('connect_refused', error, socket)
      void refuseInOrder(socket, error)
    })
  }

  readonly #track = (socket: Socket): void => {
    this.#connections.add(socket)
    socket.once('close', () => this.#connections.delete(socket))
  }

  /** Node could not read a request, or lost its connection. */
  #giveUp(error: Error, socket: Socket): void {
    const reason = refusalOf(error, socket)
    // Node reports the same error again with every byte that follows.
    if (reason !== undefined && !this.#givenUp.has(socket)) {
      this.#givenUp.add(socket)
      this.#refused(reason, error, socket)
    }
    answerClientError(error, socket)
  }

  #refused(reason: RefusalReason, error: Error, socket: Duplex): void {
    const { code } = error as NodeJS.ErrnoException
    const { message } = error
    this.#service.refusals.refused(reason, { address: addressOf(socket), code, message })
  }

  async #open(): Promise<{ readonly url: string }> {
    const { host, port } = this.#options
    await this.#mustBeGuarded()
    try {
      this.#server.listen({ host, port, backlog })
      await once(this.#server, 'listening')
    } catch (error) {
      throw listenError(error, host, port)
    }
    const address = this.#server.address() as AddressInfo
    const inUrl = host.includes(':') ? `[${host}]` : host
    this.#ownHosts = this.#namesOf(inUrl, address.port)
    this.#service.countAhead()
    return { url: `${this.#tls === undefined ? 'http' : 'https'}://${inUrl}:${address.port}` }
  }

  /** A port that other machines can reach needs tokens: authorized callers can enter, and all others cannot. */
  async #mustBeGuarded(): Promise<void> {
    const { isLoopback, host, service } = this.#options
    if (isLoopback || service.bootstrap.length > 0 || (await service.served.tokens.hasLive())) return
    throw invalidArgument(
      `host "${host}" is reachable from other machines, and no token exists. Create one with "signalbox token create", or listen on 127.0.0.1.`,
      'host',
    )
  }

  #namesOf(inUrl: string, port: number): ReadonlySet<string> {
    const { isLoopback, allowedHosts } = this.#options
    const names = [...(isLoopback ? ['localhost', '127.0.0.1', '[::1]'] : []), inUrl]
    const own = names.map((name) => `${name}:${port}`)
    // Browsers leave out the port of the scheme.
    if (port === (this.#tls === undefined ? 80 : 443)) own.push(...names)
    for (const name of allowedHosts) own.push(name, `${name}:${port}`)
    return new Set(own)
  }

  async #shut(graceMs: number): Promise<void> {
    // A port that is just being opened would otherwise stay open.
    await this.#listening?.catch(() => {})
    // Nodes may say how their tasks ended before they are sent away.
    const nodesGone = this.#service.stopDispatch(graceMs).finally(() => this.#upgrades.close())
    const ended = Promise.all([this.#service.drain(graceMs), nodesGone])
    await this.#inFlight.drained(graceMs)
    await this.#lingered(Math.min(graceMs, lastLingerMs))
    const portClosed = this.#closePort()
    await ended
    for (const socket of this.#connections) socket.destroy()
    await portClosed
    await this.#service[Symbol.asyncDispose]()
  }

  /** Ends as well where the port was never opened: Node's timer for slow requests stops here. */
  #closePort(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  async #lingered(timeoutMs: number): Promise<void> {
    const lingering = [...this.#connections].filter(isLingering)
    if (lingering.length === 0) return
    const signal = AbortSignal.timeout(timeoutMs)
    // A client that resets its connection fails only its own wait.
    await Promise.allSettled(lingering.map((socket) => once(socket, 'close', { signal })))
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!beginRequest(request, response)) return
    this.#inFlight.enter()
    // `close` comes once for every response, also when the client went away.
    response.once('close', this.#leave)
    // Node tells of a request when its head has been read. What came with that, as most bodies do, is there a moment later.
    await null
    const requestId = requestIdOf(request.headers['x-request-id'] as string | undefined)
    const { api, streams } = this.#service
    const outgoing = await api.answer(new NodeIncoming(request, response), requestId)
    const more = ['x-request-id', requestId]
    // Keep-alive would bring the next request to a server that is going away, or from a client that has ended its half.
    // Requests that were read already are served, so the last of them ends the connection.
    const isLast = this.#service.isDraining || request.socket.readableEnded
    if (isLast && !isAheadOfAnother(response)) endConnection(request, response)
    if (!('feed' in outgoing)) {
      writeText(request, response, outgoing, more)
      this.#unsent.watch(response)
      return
    }
    const transport = httpTransport(response)
    if (!response.destroyed) response.writeHead(200, [...linesOf(outgoing.headers), ...more])
    streams.serve(outgoing, transport, outgoing.ended)
  }
}

function addressOf(from: Duplex | ServerResponse): string | undefined {
  return (('socket' in from ? from.socket : from) as Partial<Socket> | null)?.remoteAddress
}

function listenError(error: unknown, host: string, port: number): SignalboxError {
  const { code = '' } = error as NodeJS.ErrnoException
  const known: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} on ${host} is already in use. Stop what uses it, or take a free one with --port 0, which prints the address (npm start -- --port 0).`,
    EACCES: `Port ${port} on ${host} is not permitted to this user. Choose one above 1023 with --port.`,
    EADDRNOTAVAIL: `This machine has no address ${host}, or not now. Choose an address of this machine with --host.`,
  }
  const message = known[code] ?? `Port ${port} on ${host} could not be opened (${code}).`
  return new SignalboxError('listen_failed', message, { cause: error, details: { host, port, reason: code } })
}
