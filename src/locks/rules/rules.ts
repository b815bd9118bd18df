import { openQueue } from './open-wait-queue.ts'
import type { AcquireAsk, LockTimes, Released, RenewTerms, Rule, Ruled, Standing } from './rule.ts'
import type { Requester } from './wait-queue.ts'

/**
 * The rules of a fair wait queue, once for every store that keeps rows. A rule knows no clock but the one it is given and does
 * nothing by itself; what it changes is collected in an OpenWaitQueue and written when that is closed.
 *
 *     acquire ──▶ free ─────────────────────────▶ granted ──release success──▶ waiters for the result: completed
 *         │                                        │  ▲                         first who wants a turn: granted
 *         └────▶ busy ──▶ waiting ──the head───────┼──┘
 *                          │                       ├──release failure, lease ran out──▶ the head: granted, attempt + 1
 *                          └── leave, deadline,    └──release terminal──▶ everybody: failed
 *                              lease ran out
 *
 * Every rule first brings the wait queue to the present (`advance`), so nothing depends on when a sweeper came by.
 */

/** Asks for the key, or how it stands with an earlier ask. */
export function* acquire(ask: AcquireAsk, times: LockTimes): Rule<Ruled<{ readonly standing: Standing }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  const standing = yield* queue.stand(ask)
  return yield* queue.close({ standing })
}

/** Ends the holder's turn; undefined when it is not the holder's any more. */
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

/** Keeps the lease, and tells how far the work is; undefined when it is not the holder's any more. */
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

/** Shortens the holder's lease to at most so long from now: its stream was bound to it and has dropped. */
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

/** Ends one wait as failed, if it is still at that position; else nothing. */
export function* fail(
  { seq, ...who }: Requester & { readonly seq: number },
  value: string,
  times: LockTimes,
): Rule<Ruled<{ readonly failed: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ failed: yield* queue.fail(who, seq, value) })
}

/** Keeps a waiter's position: its stream is open. Answers how it stands; `ended` when it is in the wait queue no more. */
export function* keep(
  who: Requester,
  { isStreamed }: { readonly isStreamed: boolean },
  times: LockTimes,
): Rule<Ruled<{ readonly standing: Standing | undefined }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ standing: yield* queue.keepPosition(who, isStreamed) })
}

/** Ends the wait of a requester whose deadline or lease is over, at any position; otherwise it does nothing. */
export function* expire(who: Requester, times: LockTimes): Rule<Ruled<{ readonly expired: boolean }>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({ expired: yield* queue.expire(who) })
}

/** Brings the wait queue to the present and nothing else. */
export function* sweep(times: LockTimes): Rule<Ruled<object>> {
  const queue = yield* openQueue(times)
  yield* queue.advance()
  return yield* queue.close({})
}
