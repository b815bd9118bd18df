import type { Clock } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

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
 * a valid token comes in whatever others do from the same address. Guessing 256 random bits is hopeless anyway; this tells
 * a client that goes on trying to wait.
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
      if (this.#windows.size >= this.#options.maxNetworks) this.#forgetFirst()
      this.#windows.set(network, { count: 1, endsAt: now + this.#options.windowMs })
      return
    }
    window.count++
    if (window.count <= this.#options.max) return
    const retryAfterMs = window.endsAt - now
    throw new SignalboxError(
      'too_many',
      `Too many wrong tokens came from this address. Wait ${Math.ceil(retryAfterMs / 1_000)} s and send a valid one.`,
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

  #forgetFirst(): void {
    const [first] = this.#windows.keys()
    this.#windows.delete(first!)
  }
}

/**
 * Who counts as one: an IPv4 address, or the 64 bits of an IPv6 address that a provider gives to one customer, who
 * would otherwise have 2⁶⁴ addresses to come from.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const mapped = address.slice(address.lastIndexOf(':') + 1)
  if (mapped.includes('.') && /^::ffff:/i.test(address)) return mapped
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  // `::` stands for as many zeros as are missing; only those among the first four groups matter.
  if (tail !== undefined) while (groups.length < 4 && groups.length + countGroups(tail) < 8) groups.push('0')
  if (groups.length < 4 && tail !== undefined) groups.push(...tail.split(':'))
  return groups.slice(0, 4).join(':')
}

function countGroups(tail: string): number {
  if (tail === '') return 0
  return tail.split(':').length + (tail.includes('.') ? 1 : 0)
}
