import { openQueue } from './open-wait-queue.ts'
import type { AcquireRequest, LockTimes, Released, RenewTerms, Rule, Ruled, Standing } from './rule.ts'
import type { Requester } from './wait-queue.ts'

/**
 * The rules of a fair wait queue, written once for all stores that keep rows. A rule takes the time from its store, collects
 * its changes in an OpenWaitQueue, and writes them when it closes that.
 *
 *     acquire ──▶ free ─────────────────────────▶ granted ──release success──▶ waiters for the result: completed
 *         │                                        │  ▲                         first who wants a turn: granted
 *         └────▶ busy ──▶ waiting ──the head───────┼──┘
 *                          │                       ├──release failure, lease ran out──▶ the head: granted, attempt + 1
 *                          └── leave, deadline,    └──release terminal──▶ all waiters: failed
 *                              lease ran out
 *
 * Every rule first brings the wait queue to the present (`advance`), so no result depends on when a sweeper runs.
 */

/** Asks for the lock; with the same requestId again, answers how that request stands. */
export function* acquire(
  request: AcquireRequest,
  times: LockTimes,
): Rule<Ruled<{ readonly standing: Standing }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  const standing = yield* queue.answerAcquire(request)
  return yield* queue.close({ standing })
}

/** Ends the holder's turn; undefined when the requester no longer holds the lock. */
export function* release(
  who: Requester & { readonly token: number },
  end: { readonly outcome: 'success' | 'failure'; readonly value: string | null; readonly terminal: boolean },
  times: LockTimes,
): Rule<Ruled<Released>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  if (!queue.isHeldBy(who, who.token)) return yield* queue.close({ released: undefined })
  yield* queue.end(end.outcome, end.value, end.terminal)
  return yield* queue.close({ released: { next: queue.holderName() }, granted: queue.grant() })
}

/** Extends the lease and saves the progress; undefined when the requester no longer holds the lock. */
export function* renew(
  who: Requester & { readonly token: number },
  { ttlMs, progress }: RenewTerms,
  times: LockTimes,
): Rule<Ruled<{ readonly expiresAt: number | undefined }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  if (!queue.isHeldBy(who, who.token)) return yield* queue.close({ expiresAt: undefined })
  return yield* queue.close({ expiresAt: queue.extend(ttlMs, progress) })
}

/** Shortens the holder's lease to at most `toMs` from now, because the stream that is bound to it broke. */
export function* shorten(
  who: Requester & { readonly token: number },
  toMs: number,
  times: LockTimes,
): Rule<Ruled<{ readonly shortened: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  if (!queue.isHeldBy(who, who.token)) return yield* queue.close({ shortened: false })
  queue.shorten(toMs)
  return yield* queue.close({ shortened: true })
}

/** Leaves the wait queue, or declines a grant that was not taken up. `holding`: a turn is ended by `release`. */
export function* leave(
  who: Requester,
  times: LockTimes,
): Rule<Ruled<{ readonly left: boolean | 'holding' }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ left: yield* queue.leave(who) })
}

/** An operator evicts a requester; a holder's turn then ends as a failure. */
export function* evict(who: Requester, times: LockTimes): Rule<Ruled<{ readonly evicted: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ evicted: yield* queue.evict(who) })
}

/** Ends one wait as failed, if it is still at that position. */
export function* fail(
  { seq, ...who }: Requester & { readonly seq: number },
  value: string,
  times: LockTimes,
): Rule<Ruled<{ readonly failed: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ failed: yield* queue.fail(who, seq, value) })
}

/** Renews the position of a waiter whose stream is open. Answers how it stands; `ended` when it left the wait queue. */
export function* keep(
  who: Requester,
  { isStreamed }: { readonly isStreamed: boolean },
  times: LockTimes,
): Rule<Ruled<{ readonly standing: Standing | undefined }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ standing: yield* queue.keepPosition(who, isStreamed) })
}

/** Ends the wait of a requester whose deadline or lease is over, at any position. */
export function* expire(who: Requester, times: LockTimes): Rule<Ruled<{ readonly expired: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ expired: yield* queue.expire(who) })
}

/** Brings the wait queue to the present. */
export function* sweep(times: LockTimes): Rule<Ruled<object>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({})
}
