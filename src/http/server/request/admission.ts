import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { FailedAttempts, networkOf } from '../../../access/index.ts'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import type { Principal } from '../call.ts'
import type { ClientAddresses } from './client-address.ts'
import { answerOnSocket } from './problem.ts'

/**
 * How much one client may have at a time, so that none takes what the others need. Each cap is counted while the thing
 * lasts, and a counter that is back at zero is gone. What is above a cap is refused at once with `too_many` and how
 * long to wait; nothing is put in line for it.
 */
export interface Admission {
  /** Counts the connections of a server from now on; those above a cap are told so and closed. */
  attach(server: Server, onRefused?: (socket: Socket, error: SignalboxError) => void): void
  /** A request begins; the returned function says that it has ended. Throws `too_many`. */
  enterRequest(principal: Pick<Principal, 'id'>): () => void
  /** A stream begins; the returned function says that it has ended. Throws `too_many`. */
  enterStream(principal: Pick<Principal, 'id'>): () => void
  /** Wrong tokens, by address; for the authenticator. */
  readonly failures: FailedAttempts
  /** How many counters there are: of addresses that are connected, and of tokens that have something open. */
  readonly counterCount: number
}

/** The caps. */
export interface AdmissionOptions {
  /** The most connections in all. @default 20_000 */
  readonly maxConnections?: number
  /** The most connections from one address (IPv6: one /64) that is no trusted proxy. @default 12_000 */
  readonly maxConnectionsPerAddress?: number
  /** The most requests in flight of one token, those that wait for a job included. @default 2_000 */
  readonly maxRequestsPerPrincipal?: number
  /** The most open streams of one token. @default 1_000 */
  readonly maxStreamsPerPrincipal?: number
  /** The most wrong tokens from one address (IPv6: one /64) within `failureWindowMs`. @default 300 */
  readonly maxFailuresPerAddress?: number
  /** @default 60_000 */
  readonly failureWindowMs?: number
}

/** The caps unless told otherwise. */
export const admissionDefaults: Required<AdmissionOptions> = {
  maxConnections: 20_000,
  // Above half of all, for behind a proxy everybody has its address; below all, so that one address is not everybody.
  maxConnectionsPerAddress: 12_000,
  maxRequestsPerPrincipal: 2_000,
  maxStreamsPerPrincipal: 1_000,
  maxFailuresPerAddress: 300,
  failureWindowMs: 60_000,
}

/** Checks the caps and makes them whole. */
export function resolveAdmissionOptions(options?: AdmissionOptions): Required<AdmissionOptions> {
  const given = withDefaults('admission', options, admissionDefaults)
  for (const [name, value] of Object.entries(given)) whole(name, value, { min: 1, max: 10_000_000 })
  return Object.freeze(given)
}

const maxNetworks = 10_000
/** So many refused connections are told why; while they linger, further ones are just cut. */
const maxTold = 100

/** Makes the counters of one server. */
export function createAdmission(
  options?: AdmissionOptions,
  clock: Clock = systemClock,
  clients: Pick<ClientAddresses, 'isProxy'> = { isProxy: () => false },
): Admission {
  const caps = resolveAdmissionOptions(options)
  const connections = new Tally()
  const requests = new Tally()
  const streams = new Tally()
  let connectionCount = 0
  let toldCount = 0
  let reportRefused = (_socket: Socket, _error: SignalboxError): void => {}

  function refuse(socket: Socket, error: SignalboxError): void {
    reportRefused(socket, error)
    if (toldCount >= maxTold) {
      socket.destroy()
      return
    }
    toldCount++
    socket.once('close', () => toldCount--)
    answerOnSocket(error, socket)
  }

  function admit(socket: Socket): boolean {
    const network = networkOf(socket.remoteAddress ?? '')
    if (connectionCount >= caps.maxConnections) {
      refuse(socket, tooMany('This server has as many connections as it takes.', caps.maxConnections, 1_000))
      return false
    }
    // All clients behind a trusted proxy have its address, so it is not capped as one client.
    const max = clients.isProxy(socket.remoteAddress ?? '')
      ? caps.maxConnections
      : caps.maxConnectionsPerAddress
    if (!connections.enter(network, max)) {
      const message = 'There are as many connections from this address as are taken.'
      refuse(socket, tooMany(message, caps.maxConnectionsPerAddress, 1_000))
      return false
    }
    connectionCount++
    socket.once('close', () => {
      connectionCount--
      connections.leave(network)
    })
    return true
  }

  return {
    attach(server, onRefused) {
      if (onRefused !== undefined) reportRefused = onRefused
      // The server's own listener must not see a socket that is refused: it would read a request from it and answer.
      const own = server.listeners('connection')
      server.removeAllListeners('connection')
      server.on('connection', (socket: Socket) => {
        if (admit(socket)) for (const listener of own) Reflect.apply(listener, server, [socket])
      })
    },
    enterRequest({ id }) {
      const max = caps.maxRequestsPerPrincipal
      if (requests.enter(id, max)) return requests.leaver(id)
      throw tooMany('This token has as many requests in flight as it may. Wait for some to end.', max, 1_000)
    },
    enterStream({ id }) {
      const max = caps.maxStreamsPerPrincipal
      if (streams.enter(id, max)) return streams.leaver(id)
      throw tooMany('This token has as many streams open as it may. Close some first.', max, 5_000)
    },
    failures: new FailedAttempts({
      clock,
      max: caps.maxFailuresPerAddress,
      windowMs: caps.failureWindowMs,
      maxNetworks,
    }),
    get counterCount() {
      return connections.size + requests.size + streams.size
    },
  }
}

/** How many of something there are by name; a name is here only while it has some. */
class Tally {
  readonly #counts = new Map<string, number>()

  /** Counts one more unless there are `max`. */
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

  /** Leaves once, however often it is called. */
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
