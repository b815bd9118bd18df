import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import {
  FailedAttempts,
  type IsInRanges,
  networkOf,
  parseRanges,
  readAddress,
} from '../../../access/index.ts'
import { type Clock, patientClock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import type { Incoming, Principal } from '../call.ts'
import { answerOnSocket } from './problem.ts'

/** The limits on connections, requests, streams and wrong tokens. */
export interface AdmissionOptions {
  /** The most connections in all. @default 20_000 */
  readonly maxConnections?: number
  /** The most connections from one address (IPv6: one /64), except trusted proxies. @default 12_000 */
  readonly maxConnectionsPerAddress?: number
  /** The most requests in flight of one token, including requests that wait for a job. @default 2_000 */
  readonly maxRequestsPerPrincipal?: number
  /** The most open streams of one token. @default 1_000 */
  readonly maxStreamsPerPrincipal?: number
  /** The most wrong tokens from one address (IPv6: one /64) within `failureWindowMs`. @default 300 */
  readonly maxFailuresPerAddress?: number
  /** @default 60_000 */
  readonly failureWindowMs?: number
}

export const admissionDefaults: Required<AdmissionOptions> = {
  maxConnections: 20_000,
  // More than half, because all clients behind a proxy share its address; less than all, so that one address cannot
  // take all.
  maxConnectionsPerAddress: 12_000,
  maxRequestsPerPrincipal: 2_000,
  maxStreamsPerPrincipal: 1_000,
  maxFailuresPerAddress: 300,
  failureWindowMs: 60_000,
}

/** Checks the limits and fills in the defaults. */
export function resolveAdmissionOptions(options?: AdmissionOptions): Required<AdmissionOptions> {
  const given = withDefaults('admission', options, admissionDefaults)
  for (const [name, value] of Object.entries(given)) whole(name, value, { min: 1, max: 10_000_000 })
  return Object.freeze(given)
}

const maxNetworks = 10_000
/** How many refused connections may linger with their answer. Above that, the server closes them without one. */
const maxAnswered = 100

/**
 * Limits how much one client may have open at a time, so that no client uses up the capacity of the others. A counter
 * counts what is open now, and is deleted at zero. Above a limit the server refuses at once, with `too_many` and a time
 * to wait.
 */
export class Admission {
  /** Counts wrong tokens by address, for the authenticator. */
  readonly failures: FailedAttempts
  readonly #caps: Required<AdmissionOptions>
  readonly #clients: Pick<ClientAddresses, 'isProxy'>
  readonly #connections = new Tally()
  readonly #requests = new Tally()
  readonly #streams = new Tally()
  #connectionCount = 0
  #answeredCount = 0

  constructor(
    options?: AdmissionOptions,
    clock: Clock = systemClock,
    clients: Pick<ClientAddresses, 'isProxy'> = { isProxy: () => false },
  ) {
    this.#caps = resolveAdmissionOptions(options)
    this.#clients = clients
    const { maxFailuresPerAddress: max, failureWindowMs: windowMs } = this.#caps
    this.failures = new FailedAttempts({ clock, max, windowMs, maxNetworks })
  }

  /**
   * Starts to count the connections of a server. A connection above a limit gets a 429 and is closed. Over TLS it is
   * only closed, because an answer would need a handshake first.
   */
  attach(server: Server, onRefused?: (socket: Socket, error: SignalboxError) => void): void {
    const isEncrypted = server instanceof TlsServer
    // The server's own listeners must not see a refused socket: they would read a request from it and answer.
    const own = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      const refusal = this.#admit(socket)
      if (refusal === undefined) for (const listener of own) Reflect.apply(listener, server, [socket])
      else {
        onRefused?.(socket, refusal)
        if (isEncrypted || this.#answeredCount >= maxAnswered) socket.destroy()
        else this.#answer(socket, refusal)
      }
    })
  }

  /** Counts a request until the returned function is called. Throws `too_many`. */
  enterRequest({ id }: Pick<Principal, 'id'>): () => void {
    const max = this.#caps.maxRequestsPerPrincipal
    if (this.#requests.enter(id, max)) return this.#requests.leaver(id)
    throw tooMany('This token has reached its limit of requests in flight. Wait for some to end.', max, 1_000)
  }

  /** Counts a stream until the returned function is called. Throws `too_many`. */
  enterStream({ id }: Pick<Principal, 'id'>): () => void {
    const max = this.#caps.maxStreamsPerPrincipal
    if (this.#streams.enter(id, max)) return this.#streams.leaver(id)
    throw tooMany('This token has reached its limit of open streams. Close some first.', max, 5_000)
  }

  /** The number of counters: of connected addresses, and of tokens with requests or streams. */
  get counterCount(): number {
    return this.#connections.size + this.#requests.size + this.#streams.size
  }

  /** Counts a connection until it closes. Returns the refusal if it is above a limit. */
  #admit(socket: Socket): SignalboxError | undefined {
    const { maxConnections, maxConnectionsPerAddress } = this.#caps
    const address = socket.remoteAddress ?? ''
    if (this.#connectionCount >= maxConnections) {
      const message = 'This server has reached its limit of connections. Retry in 1 s.'
      return tooMany(message, maxConnections, 1_000)
    }
    const network = networkOf(address)
    // All clients behind a trusted proxy have its address, so the limit of one client does not apply to it.
    const max = this.#clients.isProxy(address) ? maxConnections : maxConnectionsPerAddress
    if (!this.#connections.enter(network, max)) {
      const message = 'This address has reached its limit of connections. Close some, or retry in 1 s.'
      return tooMany(message, maxConnectionsPerAddress, 1_000)
    }
    this.#connectionCount++
    socket.once('close', () => {
      this.#connectionCount--
      this.#connections.leave(network)
    })
    return undefined
  }

  #answer(socket: Socket, refusal: SignalboxError): void {
    this.#answeredCount++
    socket.once('close', () => this.#answeredCount--)
    answerOnSocket(refusal, socket)
  }
}

/** Counts by name. A name with a count of zero is not stored. */
class Tally {
  readonly #counts = new Map<string, number>()

  /** Adds one, unless the count is `max`. */
  enter(name: string, max: number): boolean {
    const count = this.#counts.get(name) ?? 0
    if (count >= max) return false
    this.#counts.set(name, count + 1)
    return true
  }

  leave(name: string): void {
    const count = this.#counts.get(name)!
    if (count === 1) this.#counts.delete(name)
    else this.#counts.set(name, count - 1)
  }

  get size(): number {
    return this.#counts.size
  }

  /** Returns a function that leaves at its first call. */
  leaver(name: string): () => void {
    let left = false
    return () => {
      if (!left) this.leave(name)
      left = true
    }
  }
}

function tooMany(message: string, max: number, retryAfterMs: number): SignalboxError {
  return new SignalboxError('too_many', message, { details: { max, retryAfterMs } })
}

/**
 * Detects an overloaded process: two timers in a row are late. A new request would wait for seconds and slow down all
 * others, so the server refuses it until the event loop is on time again. A single stall, as after a pause of the
 * process, does not count: the server serves the requests that waited meanwhile.
 */
interface LoopLag {
  readonly isOverloaded: boolean
  stop(): void
}

interface LoopLagOptions {
  readonly clock?: Clock
  /** Called when the overload begins and when it ends. */
  readonly onChange?: (isOverloaded: boolean, lateMs: number) => void
}

const checkMs = 250
/** Workers renew leases every 10 s, a third of their time. So a loop that is a second late is far from losing one. */
const maxLateMs = 1_000

export function createLoopLag({ clock = patientClock, onChange }: LoopLagOptions = {}): LoopLag {
  let isOverloaded = false
  let wasLate = false
  let dueAt = 0
  let timer: unknown

  function checkLag(): void {
    const lateMs = clock.now() - dueAt
    const isLate = lateMs > maxLateMs
    const was = isOverloaded
    isOverloaded = isLate && wasLate
    wasLate = isLate
    checkLater()
    if (was !== isOverloaded) onChange?.(isOverloaded, Math.round(lateMs))
  }

  function checkLater(): void {
    dueAt = clock.now() + checkMs
    timer = clock.setTimeout(checkLag, checkMs)
  }

  checkLater()
  return {
    get isOverloaded() {
      return isOverloaded
    },
    stop: () => clock.clearTimeout(timer),
  }
}

/**
 * Finds the address of the client. Behind a proxy every connection has the proxy's address, and `X-Forwarded-For` names
 * the client; but any client can send that header. So the server reads it only if the peer is a trusted proxy:
 *
 *     X-Forwarded-For: 6.6.6.6, 203.0.113.7, 10.0.0.2     peer 10.0.0.1
 *                      sent by   the client   ◀── trusted ◀── trusted
 *                      the client
 *
 * The server reads from the right, where the nearest proxy writes, up to the first address that is not a trusted proxy.
 */
export interface ClientAddresses {
  /** The client's address. An IPv4 address mapped into IPv6 becomes plain IPv4. '' if the address is unknown. */
  of(incoming: ForwardedRequest): string
  /** Whether this peer is a trusted proxy. */
  isProxy(peer: string): boolean
}

export type ForwardedRequest = Pick<Incoming, 'header'> & Partial<Pick<Incoming, 'address'>>

/** Without trusted proxies the server ignores the header. Throws `invalid_argument` for an invalid address or range. */
export function createClientAddresses(trustedProxies: readonly string[]): ClientAddresses {
  const isTrusted: IsInRanges = parseRanges('trustedProxies', trustedProxies)
  const isProxy = (address: string) => trustedProxies.length > 0 && address !== '' && isTrusted(address)
  return {
    of(incoming) {
      const peer = plainPeer(incoming.address ?? '')
      if (!isProxy(peer)) return peer
      const forwardedFor = incoming.header('x-forwarded-for')
      return forwardedFor === undefined ? peer : clientOf(peer, forwardedFor, isTrusted)
    },
    isProxy: (peer) => isProxy(plainPeer(peer)),
  }
}

/** A peer's address, without the zone of a link-local address. */
function plainPeer(address: string): string {
  if (!address.includes(':')) return address
  return readAddress(address.replace(/%.*$/s, '')) ?? ''
}

function clientOf(peer: string, forwardedFor: string, isTrusted: IsInRanges): string {
  let nearest = peer
  for (const hop of forwardedFor.split(',').reverse()) {
    const address = readHop(hop.trim())
    // An invalid entry hides everything left of it, so the proxy that wrote it counts as the client.
    if (address === undefined) return nearest
    nearest = address
    if (!isTrusted(address)) return nearest
  }
  return nearest
}

/** Reads an address as proxies write it: bare, in brackets, or with a port. */
function readHop(text: string): string | undefined {
  const [, inBrackets, ipv4] = /^(?:\[([0-9a-fA-F.:]+)\](?::\d{1,5})?|([0-9.]+):\d{1,5})$/.exec(text) ?? []
  return readAddress(inBrackets ?? ipv4 ?? text)
}
