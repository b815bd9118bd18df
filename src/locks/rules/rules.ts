import { openLine } from './open-wait-queue.ts'
import type { AcquireAsk, LineTimes, RenewTerms, Rule, Ruled, Standing } from './rule.ts'
import type { Requester } from './wait-queue.ts'

/**
 * The rules of a fair line, once for every store that keeps rows. A rule knows no clock but the one it is given and does
 * nothing by itself; what it changes is collected in an OpenLine and written when that is closed.
 *
 *     acquire ──▶ free ─────────────────────────▶ granted ──release success──▶ waiters for the result: completed
 *         │                                        │  ▲                         first who wants a turn: granted
 *         └────▶ busy ──▶ waiting ──the head───────┼──┘
 *                          │                       ├──release failure, lease ran out──▶ the head: granted, attempt + 1
 *                          └── leave, deadline,    └──release terminal──▶ everybody: failed
 *                              lease ran out
 *
 * Every rule first brings the line to the present (`advance`), so nothing depends on when a sweeper came by.
 */

/** Asks for the key, or how it stands with an earlier ask. */
export function* acquire(ask: AcquireAsk, times: LineTimes): Rule<Ruled<{ readonly standing: Standing }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  const standing = yield* line.stand(ask)
  return yield* line.close({ standing })
}

/** Ends the holder's turn; undefined when it is not the holder's any more. */
export function* release(
  who: Requester & { readonly token: number },
  end: { readonly outcome: 'success' | 'failure'; readonly value: string | null; readonly terminal: boolean },
  times: LineTimes,
): Rule<Ruled<{ readonly released: { readonly next: Requester | null } | undefined }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  if (!line.isHeldBy(who, who.token)) return yield* line.close({ released: undefined })
  yield* line.end(end.outcome, end.value, end.terminal)
  return yield* line.close({ released: { next: line.holderName() } })
}

/** Keeps the lease, and tells how far the work is; undefined when it is not the holder's any more. */
export function* renew(
  who: Requester & { readonly token: number },
  { ttlMs, progress }: RenewTerms,
  times: LineTimes,
): Rule<Ruled<{ readonly expiresAt: number | undefined }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  if (!line.isHeldBy(who, who.token)) return yield* line.close({ expiresAt: undefined })
  return yield* line.close({ expiresAt: line.extend(ttlMs, progress) })
}

/** Shortens the holder's lease to at most so long from now: its stream was bound to it and has dropped. */
export function* shorten(
  who: Requester & { readonly token: number },
  toMs: number,
  times: LineTimes,
): Rule<Ruled<{ readonly shortened: boolean }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  if (!line.isHeldBy(who, who.token)) return yield* line.close({ shortened: false })
  line.shorten(toMs)
  return yield* line.close({ shortened: true })
}

/** Leaves the line, or declines a grant that was not taken up. `holding`: a turn is ended by `release`. */
export function* leave(
  who: Requester,
  times: LineTimes,
): Rule<Ruled<{ readonly left: boolean | 'holding' }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({ left: yield* line.leave(who) })
}

/** An operator removes somebody; a holder's turn then ends as a failure. */
export function* evict(who: Requester, times: LineTimes): Rule<Ruled<{ readonly evicted: boolean }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({ evicted: yield* line.evict(who) })
}

/** Ends one wait as failed, if it is still at that place; else nothing. */
export function* fail(
  { seq, ...who }: Requester & { readonly seq: number },
  value: string,
  times: LineTimes,
): Rule<Ruled<{ readonly failed: boolean }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({ failed: yield* line.fail(who, seq, value) })
}

/** Keeps a waiter's place: its stream is open. Answers how it stands; `ended` when it is in the line no more. */
export function* keep(
  who: Requester,
  { isStreamed }: { readonly isStreamed: boolean },
  times: LineTimes,
): Rule<Ruled<{ readonly standing: Standing | undefined }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({ standing: yield* line.keepPlace(who, isStreamed) })
}

/** Ends the wait of somebody whose deadline came or whose lease ran out, wherever in the line; else nothing. */
export function* expire(who: Requester, times: LineTimes): Rule<Ruled<{ readonly expired: boolean }>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({ expired: yield* line.expire(who) })
}

/** Brings the line to the present and nothing else. */
export function* sweep(times: LineTimes): Rule<Ruled<object>> {
  const line = yield* openLine(times)
  yield* line.advance()
  return yield* line.close({})
}
