import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'
import { setNewest } from '../core/newest-entries.ts'
import { groupsOfIpv6, readAddress } from './address-ranges.ts'

export interface FailedAttemptsOptions {
  readonly clock: Clock
  /** The most failed attempts of one network within `windowMs`. */
  readonly max: number
  readonly windowMs: number
  /** The most networks with a count. Beyond that, the oldest count is forgotten. */
  readonly maxNetworks: number
}

/**
 * Counts wrong tokens by network. Only requests with a wrong token are throttled: a valid token always works, whatever
 * other clients of the same address send. No client can guess 256 random bits; the limit slows down clients that try.
 */
export class FailedAttempts {
  readonly #options: FailedAttemptsOptions
  /** In the order in which the windows began, and so also end. */
  readonly #windows = new Map<string, { count: number; readonly endsAt: number }>()

  constructor(options: FailedAttemptsOptions) {
    this.#options = options
  }

  /** Counts one wrong token. Throws `too_many` beyond the limit. An unknown address ('') is not counted. */
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

  /** The number of networks with a count. */
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

/** The network of an address: an IPv4 address, or the first 64 bits of an IPv6 address, which belong to one customer. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const plain = readAddress(address)
  if (plain !== undefined && !plain.includes(':')) return plain
  // As numbers, because the same network has several notations.
  const groups = groupsOfIpv6(address).slice(0, 4)
  return groups.map((group) => group.toString(16)).join(':')
}
