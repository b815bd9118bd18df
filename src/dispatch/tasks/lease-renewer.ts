/**
 * Keeps the leases of all claims, in a few statements, and learns what became of the rest: a lease that was not renewed
 * is lost, one whose time is over by this process's own clock is given up unasked, and wishes to cancel are heard.
 */

import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier, type Notifier } from '../../core/notifier.ts'
import { cancelTopic, type JobStore, type JobsNotifier } from '../../jobs/index.ts'
import type { Claim, Claims } from './claims.ts'

/** What the keeper needs. */
export interface KeeperParts {
  readonly store: Pick<JobStore, 'renew' | 'cancelRequests'>
  readonly notifier: JobsNotifier
  readonly claims: Claims
  readonly leaseMs: number
  readonly monotonicMs: () => number
  /** The lease is not ours any more. */
  readonly lose: (claim: Claim) => void
  readonly cancel: (claim: Claim) => void
  readonly onTrouble: (error: unknown) => void
}

const batchSize = 1_000

/** Renews until it is stopped. */
export class Keeper {
  readonly #parts: KeeperParts
  readonly #wishes: Notifier = createNotifier()
  #loops: Loop[] = []
  #unlisten: (() => void) | null = null

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  get healthy(): boolean {
    return this.#loops.every(({ healthy }) => healthy)
  }

  start(): void {
    const { notifier, leaseMs, onTrouble } = this.#parts
    this.#unlisten = notifier.listen([cancelTopic], () => this.#wishes.wake())
    const backoff = { baseMs: 50, maxMs: Math.min(2_000, Math.floor(leaseMs / 6)) }
    this.#loops = [
      createLoop({
        name: 'dispatch.leases',
        idleMs: Math.floor(leaseMs / 3),
        watchdogMs: leaseMs,
        backoff,
        step: () => this.#renew(),
      }),
      createLoop({
        name: 'dispatch.wishes',
        idleMs: leaseMs,
        notifier: this.#wishes,
        backoff,
        step: () => this.#hearWishes(),
      }),
    ]
    for (const loop of this.#loops) loop.events.on('failed', ({ error }) => onTrouble(error))
  }

  async stop(withinMs: number): Promise<void> {
    this.#unlisten?.()
    await Promise.all(this.#loops.map((loop) => loop.stop({ graceMs: withinMs })))
  }

  /** Looks for wishes that no wake-up announced. */
  hearWishes(): void {
    this.#wishes.wake()
  }

  /** Gives up what must have run out by now. Ends under way speak for themselves. */
  mind(): void {
    const { claims, monotonicMs, lose } = this.#parts
    const now = monotonicMs()
    for (const claim of claims.values()) if (claim.leaseUntil < now && !claim.isEnding) lose(claim)
  }

  async #renew(): Promise<void> {
    const { store, claims, leaseMs, monotonicMs, lose, cancel } = this.#parts
    for (const batch of batches(claims)) {
      const sentAt = monotonicMs()
      const renewals = await store.renew(batch, leaseMs)
      const renewed = new Map(renewals.map((renewal) => [renewal.token + renewal.jobId, renewal]))
      for (const claim of batch) {
        const renewal = renewed.get(claim.token + claim.jobId)
        if (renewal === undefined) {
          if (!claim.isEnding) lose(claim)
          continue
        }
        claim.leaseUntil = Math.max(claim.leaseUntil, sentAt + leaseMs)
        if (renewal.cancelRequested && !claim.isEnding) cancel(claim)
      }
    }
  }

  async #hearWishes(): Promise<void> {
    const { store, claims, cancel } = this.#parts
    for (const batch of batches(claims)) {
      const wanted = new Set(await store.cancelRequests(batch))
      for (const claim of batch) if (wanted.has(claim.jobId) && !claim.isEnding) cancel(claim)
    }
  }
}

/** The claims of now, so many at a time; those whose end is not written yet need their lease most. */
function* batches(claims: Claims): Generator<readonly Claim[]> {
  const all = [...claims.values()]
  for (let at = 0; at < all.length; at += batchSize) {
    const batch = all.slice(at, at + batchSize)
    if (batch.length > 0) yield batch
  }
}
