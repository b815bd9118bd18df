import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { includesScope, type Scope } from '../../../access/index.ts'
import { type Clock, patientClock } from '../../../core/clock.ts'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { nodeSubprotocols } from '../../contract/index.ts'
import type { Authenticator, Incoming, Principal } from '../call.ts'
import { beginUpgrade, hasEarlierRequest, refuseInOrder, upgradeTooEarly } from '../connection-order.ts'
import { hostOf } from '../node-http.ts'
import { asSignalboxError } from '../request/problem.ts'
import { closeCodes, type GuardedSocket, OpenSocket, type SocketOwner } from './guarded-socket.ts'

/** Takes over the WebSockets of one path. */
export interface Gateway {
  /** The scope that a caller needs. */
  readonly scope: Scope
  accept(socket: GuardedSocket, principal: Principal): void
}

export interface UpgradesOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'watch'>
  /** Throws when the Host header does not name this server, or the request comes from a page of another site. */
  readonly checkSite: (incoming: UpgradeRequest) => void
  /** The gateways by path. */
  readonly gateways: ReadonlyMap<string, Gateway>
  /** How often the server pings the peer. @default 15_000 */
  readonly pingMs?: number
  /** How many unread bytes the server buffers for a peer. @default 1_048_576 */
  readonly maxBufferedBytes?: number
  /** How long a peer may take to answer the close frame. @default 2_000 */
  readonly closeTimeoutMs?: number
  /** Called for each refused upgrade. @default does nothing */
  readonly onRefused?: (error: SignalboxError, socket: Duplex) => void
  /** Gets errors that a gateway threw. @default prints them */
  readonly onError?: (error: unknown) => void
  readonly clock?: Clock
}

/** The part of a request that the server reads before it accepts the upgrade. */
type UpgradeRequest = Pick<Incoming, 'method' | 'path' | 'header' | 'address'>

/** The limits of one message, and of its parts that `ws` buffers while it arrives (websockets/ws#2331). */
const limits = { maxPayload: 262_144, maxFragments: 64, maxBufferedChunks: 1_024 }
const authenticateMs = 10_000

/**
 * Whether a request asks for a WebSocket. A request that names another upgrade is an ordinary request. HTTP/1.0 has no
 * upgrades.
 */
export function isWebSocketUpgrade({
  headers,
  httpVersion,
}: Pick<IncomingMessage, 'headers' | 'httpVersion'>): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket' && httpVersion !== '1.0'
}

/**
 * Turns HTTP requests into WebSockets. The server checks an upgrade like any other request before it accepts it:
 *
 *     upgrade ──▶ site ──▶ path ──▶ token and scope ──▶ 101 ──▶ gateway
 *                   └────────┴─────────────┴──▶ a problem document on the bare socket
 *
 * An accepted socket is guarded: messages, fragments and buffers are bounded, and the server pings it. The server
 * closes it when its token is no longer valid (4401), or when it shuts down (1001).
 */
export class Upgrades {
  readonly #options: UpgradesOptions
  readonly #clock: Clock
  readonly #closeTimeoutMs: number
  readonly #sockets = new Set<OpenSocket>()
  readonly #owner: SocketOwner
  readonly #handshake: WebSocketServer
  #whenClosed: PromiseWithResolvers<void> | undefined

  constructor(options: UpgradesOptions) {
    const {
      clock = patientClock,
      pingMs = 15_000,
      maxBufferedBytes = 1_048_576,
      closeTimeoutMs = 2_000,
    } = options
    this.#options = options
    this.#clock = clock
    this.#closeTimeoutMs = closeTimeoutMs
    this.#owner = {
      ...{ clock, pingMs, maxBufferedBytes },
      onError: options.onError ?? ((error) => console.error('A WebSocket gateway failed:', error)),
      forget: (socket) => this.#forget(socket),
    }
    const handshakeOptions = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      // A browser that offers subprotocols closes the socket unless the server chooses one. Clients may send the token
      // as a subprotocol, so the server chooses the agreed one, never the token.
      handleProtocols: (offered: Set<string>) =>
        offered.has(nodeSubprotocols.agreed) && nodeSubprotocols.agreed,
      closeTimeout: closeTimeoutMs,
      ...limits,
    }
    this.#handshake = new WebSocketServer(handshakeOptions)
    this.#handshake.on('wsClientError', (error, socket) =>
      this.#refuse(socket, new SignalboxError('invalid_argument', `${error.message}.`, { cause: error })),
    )
  }

  /** Starts to answer the upgrade requests of this server. */
  attach(server: Server): void {
    server.on('upgrade', (request, socket, head) => this.handle(request, socket, head))
  }

  /** Answers one upgrade request. */
  handle(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (!beginUpgrade(socket)) return
    // Listens until the WebSocket does. An error without a listener would end the process.
    socket.on('error', cut)
    if (hasEarlierRequest(socket)) {
      this.#refuse(socket, upgradeTooEarly())
      return
    }
    this.#upgrade(request, socket, head).catch((error: unknown) => {
      const known = asSignalboxError(error)
      if (known.code === 'internal') this.#owner.onError(error)
      this.#refuse(socket, known)
    })
  }

  /** Closes every socket and refuses new ones. */
  close(): Promise<void> {
    if (this.#whenClosed === undefined) {
      this.#whenClosed = Promise.withResolvers<void>()
      for (const socket of this.#sockets) socket.close(closeCodes.goingAway, 'The server is shutting down.')
      const timer = this.#clock.setTimeout(() => {
        for (const socket of this.#sockets) socket.terminate()
      }, this.#closeTimeoutMs)
      void this.#whenClosed.promise.then(() => this.#clock.clearTimeout(timer))
      this.#checkEnd()
    }
    return this.#whenClosed.promise
  }

  #refuse(socket: Duplex, error: SignalboxError): void {
    this.#options.onRefused?.(error, socket)
    void refuseInOrder(socket, error)
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const incoming = readRequest(request)
    this.#checkOpen()
    this.#options.checkSite(incoming)
    const gateway = this.#options.gateways.get(incoming.path)
    if (gateway === undefined) throw noGateway(incoming)
    if (incoming.method !== 'GET') throw wrongMethod(incoming)
    if (!isWebSocketUpgrade(request)) throw noWebSocket()
    const principal = await this.#authenticate(incoming)
    if (!includesScope(principal.scope, gateway.scope)) throw outOfScope(gateway.scope)
    // The server or the client may have closed meanwhile.
    this.#checkOpen()
    if (socket.destroyed || !socket.writable) return
    this.#handshake.handleUpgrade(request, socket, head, (ws) => {
      socket.off('error', cut)
      this.#accept(ws, gateway, principal)
    })
  }

  #accept(ws: WebSocket, gateway: Gateway, principal: Principal): void {
    const socket = new OpenSocket(ws, this.#owner)
    this.#sockets.add(socket)
    const unwatch = this.#options.authenticator.watch(principal, ({ message }) =>
      socket.close(closeCodes.unauthorized, message),
    )
    socket.events.on('closed', unwatch)
    try {
      gateway.accept(socket, principal)
    } catch (error) {
      // The server began to shut down after the last check.
      if (isSignalboxError(error, 'draining')) {
        socket.close(closeCodes.goingAway, error.message)
        return
      }
      this.#owner.onError(error)
      socket.close(closeCodes.failed, 'The server failed. Its log has the error.')
    }
  }

  #authenticate(incoming: UpgradeRequest): Promise<Principal> {
    const { promise, resolve, reject } = Promise.withResolvers<Principal>()
    const timer = this.#clock.setTimeout(
      () => reject(new SignalboxError('timeout', 'Token lookup timed out. Connect again.')),
      authenticateMs,
    )
    const authenticate = async () => this.#options.authenticator.authenticate(incoming)
    authenticate().then(resolve, reject)
    return promise.finally(() => this.#clock.clearTimeout(timer))
  }

  #checkOpen(): void {
    if (this.#whenClosed === undefined) return
    throw new SignalboxError(
      'draining',
      'This server is shutting down. Connect to another one, or retry in 1 s.',
    )
  }

  #forget(socket: OpenSocket): void {
    this.#sockets.delete(socket)
    this.#checkEnd()
  }

  #checkEnd(): void {
    if (this.#sockets.size === 0) this.#whenClosed?.resolve()
  }
}

function cut(this: Duplex): void {
  this.destroy()
}

function readRequest(request: IncomingMessage): UpgradeRequest {
  const { method = 'GET', url = '/', headers, socket } = request
  const query = url.indexOf('?')
  return {
    method,
    path: query < 0 ? url : url.slice(0, query),
    address: socket.remoteAddress ?? '',
    header(name) {
      if (name === 'host') return hostOf(request)
      const value = headers[name] ?? headerFromProtocols(name, headers['sec-websocket-protocol'])
      return Array.isArray(value) ? value.join(', ') : value
    },
  }
}

/** A browser cannot set these headers, so it sends their values as subprotocols, in base64url. */
function headerFromProtocols(name: string, offered: string | undefined): string | undefined {
  if (offered === undefined || (name !== 'authorization' && name !== 'signalbox-namespace')) return undefined
  const isToken = name === 'authorization'
  const begin = isToken ? nodeSubprotocols.bearer : nodeSubprotocols.namespace
  const found = offered.split(',', maxOffered).find((one) => one.trimStart().startsWith(begin))
  if (found === undefined) return undefined
  const value = Buffer.from(found.trim().slice(begin.length), 'base64url').toString()
  return isToken ? `Bearer ${value}` : encodeURIComponent(value.toWellFormed())
}

const maxOffered = 8

function noGateway({ method, path }: UpgradeRequest): SignalboxError {
  return new SignalboxError('not_found', `There is no WebSocket endpoint at ${method} ${path}.`)
}

function wrongMethod({ method, path }: UpgradeRequest): SignalboxError {
  return new SignalboxError('method_not_allowed', `${path} is a WebSocket. Open it with GET, not ${method}.`)
}

function noWebSocket(): SignalboxError {
  return invalidArgument('This path accepts WebSockets only. Send "Upgrade: websocket".')
}

function outOfScope(needed: Scope): SignalboxError {
  return new SignalboxError('forbidden', `This needs a token with the scope "${needed}".`)
}
