/**
 * A wait queue as a history's checker models it: the holder with its token, the waiters in order, and the notifications
 * that waiters which left must still get. End times are known only within bounds, so an instant is an interval.
 */

/** Not before `min` and not after `max`. */
export interface Instant {
  readonly min: number
  readonly max: number
}

export interface ModelWaitQueue {
  readonly holder: ModelHolder | undefined
  /** Of the present turn, or of the last one that failed. */
  readonly attempt: number
  /** In order of position. */
  readonly waiters: readonly ModelWaiter[]
  readonly outcomes: Readonly<Record<string, ModelOutcome>>
  /** The highest token in any answer. */
  readonly lastToken: number
  readonly nextPosition: number
}

export interface ModelHolder {
  readonly who: string
  /** Undefined while no client has seen it. */
  readonly token: number | undefined
  readonly attempt: number
  readonly position: number
  readonly lease: Instant
  /** Until when it must be taken up; undefined once it was. */
  readonly takeUp: Instant | undefined
}

export interface ModelWaiter {
  readonly who: string
  readonly position: number
  readonly want: 'result' | 'turn'
  readonly ttlMs: number
  readonly deadline: Instant | undefined
  /** How long it has to take up a grant. */
  readonly windowMs: Instant
}

export interface ModelOutcome {
  readonly kind: string
  readonly value: string | null
  readonly isNotified: boolean
  readonly position: number
}

export const untouched: ModelWaitQueue = {
  holder: undefined,
  attempt: 0,
  waiters: [],
  outcomes: {},
  lastToken: 0,
  nextPosition: 1,
}

/** By how much two readings of the host's clock may differ that should be the same. */
const slackMs = 25

/** Two wait queues that differ in their times alone, as one whose times are within the bounds of either. */
export function merged(queue: ModelWaitQueue, other: ModelWaitQueue): ModelWaitQueue {
  const { holder } = queue
  const lease = holder && hull(holder.lease, other.holder!.lease)
  const takeUp = holder?.takeUp && hull(holder.takeUp, other.holder!.takeUp!)
  const waiters = queue.waiters.map((waiter, index) => {
    const { deadline, windowMs } = other.waiters[index]!
    return {
      ...waiter,
      deadline: waiter.deadline && hull(waiter.deadline, deadline!),
      windowMs: hull(waiter.windowMs, windowMs),
    }
  })
  return { ...queue, waiters, holder: holder && { ...holder, lease: lease!, takeUp } }
}

/** Whether the second, which differs in its times alone, adds nothing to the first. */
export function covers(queue: ModelWaitQueue, other: ModelWaitQueue): boolean {
  const [bounds, others] = [boundsOf(queue), boundsOf(other)]
  return bounds.every((bound, index) => bound <= others[index]!)
}

function boundsOf({ holder, waiters }: ModelWaitQueue): readonly number[] {
  const instants = [
    holder?.lease,
    holder?.takeUp,
    ...waiters.flatMap(({ deadline, windowMs }) => [deadline, windowMs]),
  ]
  return instants.flatMap((instant) => (instant ? [instant.min, -instant.max] : []))
}

/** The same wait queue with the outcome of one waiter. A client that keeps asking gets a loss, so a loss counts as notified. */
export function concluded(
  queue: ModelWaitQueue,
  { who, position }: { readonly who: string; readonly position: number },
  kind: string,
  isNotified = false,
): ModelWaitQueue {
  const outcome = { kind, value: null, isNotified: isNotified || kind === 'lost', position }
  return { ...queue, outcomes: { ...queue.outcomes, [who]: outcome } }
}

export function without(queue: ModelWaitQueue, who: string): ModelWaitQueue {
  return { ...queue, waiters: queue.waiters.filter((waiter) => waiter.who !== who) }
}

export function waiterOf({ waiters }: ModelWaitQueue, who: string): ModelWaiter | undefined {
  return waiters.find((waiter) => waiter.who === who)
}

export function positionOf({ waiters }: ModelWaitQueue, who: string): number {
  return waiters.findIndex((waiter) => waiter.who === who) + 1
}

export function endOf({ lease, takeUp }: ModelHolder): Instant {
  return takeUp ? earliest(lease, takeUp) : lease
}

export function later({ min, max }: Instant, ms: number): Instant {
  return { min: min + ms - slackMs, max: max + ms + slackMs }
}

export function earliest(a: Instant, b: Instant): Instant {
  return { min: Math.min(a.min, b.min), max: Math.min(a.max, b.max) }
}

export function latest(a: Instant, b: Instant): Instant {
  return { min: Math.max(a.min, b.min), max: Math.max(a.max, b.max) }
}

/** The instant that a call named; undefined when it contradicts the known bounds. */
export function narrowed({ min, max }: Instant, named: number): Instant | undefined {
  if (named < min - slackMs || named > max + slackMs) return undefined
  return { min: Math.max(min, named - slackMs), max: Math.min(max, named + slackMs) }
}

function hull(a: Instant, b: Instant): Instant {
  return { min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) }
}
