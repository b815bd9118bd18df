import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { FailedAttempts, networkOf } from '../../../access/index.ts'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import type { Principal } from '../call.ts'
import type { ClientAddresses } from './client-addresses.ts'
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
