import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'
import { setNewest } from '../core/newest-entries.ts'
import { groupsOfIpv6, readAddress } from './address-ranges.ts'

export interface FailedAttemptsOptions {
  readonly clock: Clock
  /** How many attempts of one network may fail within `windowMs`. */
  readonly max: number
  readonly windowMs: number
  /** The most networks that are counted; beyond, the one that began to fail first is forgotten. */
  readonly maxNetworks: number
}

/**
 * Counts the wrong tokens that come from a network, each network by itself. Only answers to wrong tokens are throttled:
 * a valid token is let in whatever others send from the same address. Guessing 256 random bits is hopeless anyway; the
 * limit makes a client that keeps trying slow down.
 */
export class FailedAttempts {
  readonly #options: FailedAttemptsOptions
  /** In the order in which the windows began, which is the order in which they end. */
  readonly #windows = new Map<string, { count: number; readonly endsAt: number }>()

  constructor(options: FailedAttemptsOptions) {
    this.#options = options
  }

  /** Counts one wrong token; throws `too_many` when there were too many from there lately. An unknown address is not counted. */
  count(address: string): void {
    if (address === '') return
    const now = this.#options.clock.now()
    this.#forget(now)
    const network = networkOf(address)
    const window = this.#windows.get(network)
    if (window === undefined) {
      const { windowMs, maxNetworks } = this.#options
      setNewest(this.#windows, network, { count: 1, endsAt: now + windowMs }, maxNetworks)
      return
    }
    window.count++
    if (window.count <= this.#options.max) return
    const retryAfterMs = window.endsAt - now
    throw new SignalboxError(
      'too_many',
      `Too many requests with a wrong token from this address. Wait ${Math.ceil(retryAfterMs / 1_000)} s and send a valid token.`,
      { details: { retryAfterMs: Math.ceil(retryAfterMs) } },
    )
  }

  /** How many networks are counted. */
  get size(): number {
    return this.#windows.size
  }

  #forget(now: number): void {
    for (const [network, { endsAt }] of this.#windows) {
      if (endsAt > now) return
      this.#windows.delete(network)
    }
  }
}

/**
 * The network of an address: an IPv4 address, or the first 64 bits of an IPv6 address, which a provider gives to one
 * customer.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const plain = readAddress(address)
  if (plain !== undefined && !plain.includes(':')) return plain
  // By number: the same network can be written in many ways.
  const groups = groupsOfIpv6(address).slice(0, 4)
  return groups.map((group) => group.toString(16)).join(':')
}
