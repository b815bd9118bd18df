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
  hasLaterRequest,
  refuseInOrder,
} from './connection-order.ts'
import { isLingering } from './lingering-close.ts'
import { type RefusalReason, requestIdOf } from './log/log.ts'
import { http, linesOf, NodeIncoming, writeText } from './node-http.ts'
import { InFlight } from './request/in-flight.ts'
import { answerClientError, refusalOf } from './request/problem.ts'
import { checkSite } from './request/site-guard.ts'
import { Unsent } from './request/unsent.ts'
import { type ResolvedServerOptions, resolveServerOptions, type ServerOptions } from './server-options.ts'
import { createService, type Service } from './service.ts'
import { isWebSocketUpgrade, Upgrades } from './sockets/upgrade.ts'
import { httpTransport } from './streams/transport.ts'
import { checkTls, createTlsServer, requireUnexpired, type TlsOptions, type TlsServer } from './tls.ts'

/**
 * The server of one port. It checks every request before it does anything else. Every answer is data, and every failure
 * a problem document, even for a malformed request. Node handles the port and the connections. `api.ts` routes and
 * answers the requests of this adapter and of the other (fetch-handler.ts).
 *
 * It closes in an order that loses nothing: it reports that it is not ready, ends streams with a reconnect time, ends
 * waiting claims, waits for requests in flight, cuts the remaining connections, and stops loops and services.
 */
export interface Server extends AsyncDisposable {
  /** Opens the port and returns its URL. A second call returns the same. */
  listen(): Promise<{ readonly url: string }>
  /**
   * Replaces the certificates of a server with TLS for new connections. Open connections stay. Throws when certificate
   * and key do not match or the certificate has expired; the server then keeps its present certificates.
   */
  setTls(tls: TlsOptions): void
  /** Drains and closes the server. A second call waits for the same end. */
  close(options?: CloseOptions): Promise<void>
}

export interface CloseOptions {
  /** How long to wait for requests in flight. @default the server's graceMs */
  readonly graceMs?: number
}

/** Creates a server; `listen` opens its port. */
export function createServer(options: ServerOptions): Server {
  return new HttpServer(resolveServerOptions(options))
}

/**
 * How many connections may wait to be accepted; the machine may allow fewer. When a server comes back, all its nodes
 * and streams connect at once. A client beyond this number gets no answer, and tries again after a second, then after
 * three.
 */
const backlog = 4_096

/**
 * How long a closing server waits for the clients of its last answers to close, so that no reset destroys an answer.
 */
const lastLingerMs = 200

class HttpServer implements Server {
  readonly #options: ResolvedServerOptions
  readonly #server: HttpServerOfNode
  readonly #service: Service
  readonly #upgrades: Upgrades
  readonly #inFlight = new InFlight()
  readonly #unsent: Unsent
  readonly #givenUp = new WeakSet<Socket>()
  /** All open connections, including upgraded ones and unfinished TLS handshakes. */
  readonly #connections = new Set<Socket>()
  #tls: TlsServer | undefined
  readonly #leave = () => this.#inFlight.leave()
  /** The allowed values of the Host header; set when the port is known. */
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
      // A fleet may share one token, so only the limits on connections apply to its sockets.
      authenticator,
      checkSite: (incoming) => checkSite(incoming, undefined, this.#ownHosts),
      gateways: new Map([[nodesPath, this.#service.nodeGateway]]),
      onRefused: (error, socket) => this.#refused('upgrade_refused', error, socket),
      ...(service.onError === undefined ? {} : { onError: service.onError }),
    })
    this.#server = this.#createHttpServer()
    this.#replaceNodeDefaults()
  }

  listen(): Promise<{ readonly url: string }> {
    if (this.#closing) {
      const error = new SignalboxError(
        'closed',
        'This server was closed. Create a new one with createServer.',
      )
      return Promise.reject(error)
    }
    this.#listening ??= this.#open()
    return this.#listening
  }

  setTls(tls: TlsOptions): void {
    if (this.#tls === undefined)
      throw invalidArgument('This server speaks plain HTTP. Give createServer the option tls.', 'tls')
    requireUnexpired(checkTls(tls))
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
      // The site guard answers a missing Host. Node's own answer is not a problem document.
      requireHostHeader: false,
      // Requests with another upgrade, as from clients that try HTTP/2, are ordinary requests.
      shouldUpgradeCallback: isWebSocketUpgrade,
    }
    const serve = (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response)
    if (tls === undefined) {
      const server = http.createServer(options, serve)
      // A client that ended its half still gets its answers. Node's types lack this property.
      return Object.assign(server, { httpAllowHalfOpen: true })
    }
    this.#tls = createTlsServer(tls, options, serve, (socket, error) =>
      this.#refused('tls_handshake', error, socket),
    )
    return this.#tls.server
  }

  /** Takes over the cases that Node would answer without a problem document, or drop. */
  #replaceNodeDefaults(): void {
    const server = this.#server
    this.#service.admission.attach(server, (socket, error) =>
      this.#refused('connection_limit', error, socket),
    )
    for (const event of ['connection', 'secureConnection']) server.prependListener(event, this.#track)
    this.#upgrades.attach(server)
    // By default Node silently drops headers after the first 2,000. The limit on their bytes is enough.
    server.maxHeadersCount = 0
    // A server may ignore an unknown expectation (RFC 9110, 10.1.1).
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

  /** Called when Node cannot read a request, or loses its connection. */
  #giveUp(error: Error, socket: Socket): void {
    const reason = refusalOf(error, socket)
    // Node reports the same error again for all further bytes.
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
    await this.#requireToken()
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

  /** Refuses to open a port that other machines can reach while no token exists. */
  async #requireToken(): Promise<void> {
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
    // Waits for a port that is opening, because it would stay open otherwise.
    await this.#listening?.catch(() => {})
    // Nodes may report the ends of their tasks before their sockets close.
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

  /** Also needed if the port was never opened, because it stops Node's timer for slow requests. */
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
    // Every response emits `close` once, even if the client left.
    response.once('close', this.#leave)
    // Node emits a request when it has read the head. Most bodies arrive with it, and are available a moment later.
    await null
    const requestId = requestIdOf(request.headers['x-request-id'] as string | undefined)
    const { api, streams } = this.#service
    const outgoing = await api.answer(new NodeIncoming(request, response), requestId)
    const more = ['x-request-id', requestId]
    // Ends a connection whose server drains, or whose client ended its half. The server still answers all requests that
    // it has read, so the last of them ends the connection.
    const isLast = this.#service.isDraining || request.socket.readableEnded
    if (isLast && !hasLaterRequest(response)) endConnection(request, response)
    if (!('feed' in outgoing)) {
      writeText(request, response, outgoing, more)
      this.#unsent.watch(response)
      return
    }
    const transport = httpTransport(response)
    if (!response.destroyed) response.writeHead(200, [...linesOf(outgoing.headers), ...more])
    streams.serve(outgoing, transport)
  }
}

function addressOf(from: Duplex | ServerResponse): string | undefined {
  return (('socket' in from ? from.socket : from) as Partial<Socket> | null)?.remoteAddress
}

function listenError(error: unknown, host: string, port: number): SignalboxError {
  const { code = '' } = error as NodeJS.ErrnoException
  const known: Readonly<Record<string, string>> = {
    EADDRINUSE: `Port ${port} on ${host} is already in use. Stop the program that uses it, or take a free port with --port 0, which prints the address (npm start -- --port 0).`,
    EACCES: `Port ${port} on ${host} is not permitted to this user. Choose one above 1023 with --port.`,
    EADDRNOTAVAIL: `This machine has no address ${host} at present. Choose an address of this machine with --host.`,
  }
  const message = known[code] ?? `Port ${port} on ${host} could not be opened (${code}).`
  return new SignalboxError('listen_failed', message, { cause: error, details: { host, port, reason: code } })
}
