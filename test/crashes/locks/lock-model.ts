/**
 * What a step does to a wait queue, written apart from src/locks/rules so that one does not share the other's mistakes.
 *
 * A step is judged by a clock that is read after it was sent and before it was answered, and a sweep may come by at any
 * time: so a step has several outcomes where it is open whether a lease had run out. `follow` gives every wait queue that
 * could be after a step, given what was answered. A store reads the clock when it begins a step and may then have to
 * wait for another step, so of two steps the later one may have the earlier time.
 */
import { isDeepStrictEqual } from 'node:util'
import type { HistoryTimes, LockAnswer, LockCall } from './lock-operation.ts'
import {
  concluded,
  earliest,
  endOf,
  type Instant,
  later,
  latest,
  type ModelOutcome,
  type ModelWaiter,
  type ModelWaitQueue,
  narrowed,
  positionOf,
  waiterOf,
  without,
} from './lock-queue.ts'

/** Every wait queue that could be after this step, if it was answered so; without an answer, whatever it would have been. */
export function* follow(
  queue: ModelWaitQueue,
  call: LockCall,
  answer: LockAnswer | undefined,
  clock: Instant,
  times: HistoryTimes,
): Generator<ModelWaitQueue> {
  for (const now of swept(queue, clock, call.step !== 'inspect')) yield* take(now, call, answer, times)
}

/** A wait queue, and what the clock may show to a step that finds it so. */
interface Now {
  readonly queue: ModelWaitQueue
  readonly clock: Instant
}

/**
 * The wait queue brought to the present, by sweeps on the way and by the step itself. Looking brings nothing to the present:
 * then a lease that ran out may still stand there.
 */
function* swept(queue: ModelWaitQueue, clock: Instant, isForced: boolean): Generator<Now> {
  for (const each of withoutLate(queue, clock)) yield* advanced(each, clock, isForced)
}

/** Those whose deadline has come may have been removed, wherever they stand. */
function* withoutLate(queue: ModelWaitQueue, clock: Instant, from = 0): Generator<ModelWaitQueue> {
  const index = queue.waiters.findIndex(
    ({ deadline }, at) => at >= from && deadline !== undefined && deadline.min <= clock.max,
  )
  if (index < 0) {
    yield queue
    return
  }
  yield* withoutLate(queue, clock, index + 1)
  const late = queue.waiters[index]!
  yield* withoutLate(concluded(without(queue, late.who), late, 'timeout'), clock, index)
}

function* advanced(queue: ModelWaitQueue, clock: Instant, isForced: boolean): Generator<Now> {
  const { holder } = queue
  const end = holder && endOf(holder)
  if (!end || !isForced) yield { queue, clock }
  else if (end.max > clock.min) yield { queue, clock: { min: clock.min, max: Math.min(clock.max, end.max) } }
  if (!end || end.min > clock.max) return
  for (const next of handedOn(lapsed(queue), { min: end.min, max: clock.max }))
    yield* advanced(next, clock, isForced)
}

function lapsed(queue: ModelWaitQueue): ModelWaitQueue {
  const holder = queue.holder!
  const ended = concluded({ ...queue, holder: undefined }, holder, 'lost')
  // One that was never taken up was no attempt.
  return holder.takeUp ? { ...ended, attempt: holder.attempt - 1 } : ended
}

/** A wait queue without a holder, after the first present waiter was granted. */
function* handedOn(queue: ModelWaitQueue, at: Instant): Generator<ModelWaitQueue> {
  const [first] = queue.waiters
  if (!first) {
    yield { ...queue, attempt: 0 }
    return
  }
  const rest = without(queue, first.who)
  const { deadline, windowMs } = first
  if (deadline && deadline.min <= at.max) yield* handedOn(concluded(rest, first, 'timeout'), at)
  if (deadline && deadline.max <= at.min) return
  const takeUp = { min: later(at, windowMs.min).min, max: later(at, windowMs.max).max }
  yield granted(rest, first, at, takeUp)
}

function granted(
  queue: ModelWaitQueue,
  { who, ttlMs, position }: Pick<ModelWaiter, 'who' | 'ttlMs' | 'position'>,
  at: Instant,
  takeUp: Instant | undefined,
): ModelWaitQueue {
  const attempt = queue.attempt + 1
  return {
    ...queue,
    attempt,
    holder: { who, token: undefined, attempt, position, lease: later(at, ttlMs), takeUp },
  }
}

/** The step itself, on a wait queue that is of now. */
function* take(
  now: Now,
  call: LockCall,
  answer: LockAnswer | undefined,
  times: HistoryTimes,
): Generator<ModelWaitQueue> {
  const { queue, clock: at } = now
  const fits = (is: LockAnswer): boolean => answer === undefined || same(answer, is)
  switch (call.step) {
    case 'acquire':
      yield* acquire(queue, call, answer, at, times)
      return
    case 'keep': {
      if (queue.holder?.who === call.who) yield* seen(queue, answer)
      else if (waiterOf(queue, call.who)) yield* waitsOn(queue, call, answer, at, times)
      else if (!queue.outcomes[call.who]) {
        if (fits({ is: 'no' })) yield queue
      } else yield* deliver(queue, call.who, answer)
      return
    }
    case 'release': {
      for (const held of heldBy(queue, call)) {
        if (!held.isHeld) {
          if (fits({ is: 'no' })) yield held.queue
          continue
        }
        for (const next of turnEnded(held.queue, call, at))
          if (fits({ is: 'released', next: next.holder?.who ?? null })) yield next
      }
      return
    }
    case 'renew': {
      for (const held of heldBy(queue, call)) {
        if (held.isHeld) yield* renewed(held.queue, later(at, call.ttlMs), answer)
        else if (fits({ is: 'no' })) yield held.queue
      }
      return
    }
    case 'shorten': {
      for (const held of heldBy(queue, call)) {
        if (!held.isHeld) {
          if (fits({ is: 'no' })) yield held.queue
          continue
        }
        const holder = held.queue.holder!
        const lease = earliest(holder.lease, later(at, call.toMs))
        if (fits({ is: 'shortened' })) yield { ...held.queue, holder: { ...holder, lease } }
      }
      return
    }
    case 'leave': {
      const { holder } = queue
      if (holder?.who === call.who && !holder.takeUp) {
        if (fits({ is: 'holding' })) yield queue
      } else if (holder?.who === call.who) {
        if (!fits({ is: 'left' })) return
        yield* handedOn({ ...queue, holder: undefined, attempt: holder.attempt - 1 }, at)
      } else if (waiterOf(queue, call.who)) {
        if (fits({ is: 'left' })) yield without(queue, call.who)
      } else if (fits({ is: 'no' })) yield queue
      return
    }
    case 'evict': {
      const waiter = waiterOf(queue, call.who)
      const { holder } = queue
      if (holder?.who === call.who) {
        if (!fits({ is: 'evicted' })) return
        const failure = { outcome: 'failure', terminal: false, value: '' } as const
        yield* turnEnded(concluded(queue, holder, 'evicted'), failure, at)
      } else if (waiter) {
        if (fits({ is: 'evicted' })) yield concluded(without(queue, call.who), waiter, 'evicted')
      } else if (fits({ is: 'no' })) yield queue
      return
    }
    case 'inspect': {
      const { holder } = queue
      const waiters = queue.waiters.map(({ who }) => who)
      const unheld: LockAnswer = { is: 'queue', holder: null, attempt: null, waiters }
      if ((!holder || holder.lease.min <= at.max) && fits(unheld)) yield queue
      if (!holder || holder.lease.max <= at.min) return
      if (fits({ is: 'queue', holder: holder.who, attempt: holder.attempt, waiters })) yield queue
    }
  }
}

type Acquire = Extract<LockCall, { readonly step: 'acquire' }>

function* acquire(
  queue: ModelWaitQueue,
  call: Acquire,
  answer: LockAnswer | undefined,
  at: Instant,
  times: HistoryTimes,
): Generator<ModelWaitQueue> {
  const { who, wait, want, ttlMs, deadlineMs } = call
  const { holder } = queue
  if (holder?.who === who) {
    yield* seen({ ...queue, holder: { ...holder, takeUp: undefined } }, answer)
    return
  }
  if (waiterOf(queue, who)) {
    yield* waitsOn(queue, call, answer, at, times)
    return
  }
  const outcome = queue.outcomes[who]
  if (outcome && !outcome.isNotified && outcome.kind !== 'lost') {
    yield* deliver(queue, who, answer)
    return
  }
  if (holder && !wait) {
    if (answer === undefined || same(answer, { is: 'refused', holder: holder.who })) yield queue
    return
  }
  const position = outcome?.position ?? queue.nextPosition
  const { [who]: _, ...outcomes } = queue.outcomes
  const here = { ...queue, outcomes, nextPosition: Math.max(queue.nextPosition, position + 1) }
  if (!holder) {
    yield* seen(granted(here, { who, ttlMs, position }, at, undefined), answer)
    return
  }
  const deadline = deadlineMs === null ? undefined : later(at, deadlineMs)
  const windowMs = windowOf(call, times)
  const waiters = [...here.waiters, { who, position, want, ttlMs, deadline, windowMs }]
  const joined = { ...here, waiters: waiters.toSorted((a, b) => a.position - b.position) }
  if (answer === undefined || same(answer, { is: 'queued', position: positionOf(joined, who) })) yield joined
}

/** A waiter gets its position, or the answer that its time is over. */
function* waitsOn(
  queue: ModelWaitQueue,
  call: { readonly who: string; readonly isStreamed: boolean },
  answer: LockAnswer | undefined,
  at: Instant,
  times: HistoryTimes,
): Generator<ModelWaitQueue> {
  const { who } = call
  const waiter = waiterOf(queue, who)!
  const { deadline } = waiter
  if (deadline && deadline.min <= at.max) {
    if (answer === undefined || same(answer, { is: 'ended', kind: 'timeout', value: null }))
      yield concluded(without(queue, who), waiter, 'timeout', true)
  }
  if (deadline && deadline.max <= at.min) return
  if (answer !== undefined && !same(answer, { is: 'queued', position: positionOf(queue, who) })) return
  const windowMs = windowOf(call, times)
  yield { ...queue, waiters: queue.waiters.map((each) => (each === waiter ? { ...each, windowMs } : each)) }
}

/** A waiter whose wait ended gets the outcome. */
function* deliver(
  queue: ModelWaitQueue,
  who: string,
  answer: LockAnswer | undefined,
): Generator<ModelWaitQueue> {
  const outcome = queue.outcomes[who]!
  const { kind, value } = outcome
  if (answer !== undefined && !same(answer, { is: 'ended', kind, value })) return
  yield { ...queue, outcomes: { ...queue.outcomes, [who]: { ...outcome, isNotified: true } } }
}

/** The holder gets its grant: the token that it had, or a new one above all seen tokens. */
function* seen(queue: ModelWaitQueue, answer: LockAnswer | undefined): Generator<ModelWaitQueue> {
  const holder = queue.holder!
  if (answer === undefined) {
    yield queue
    return
  }
  if (answer.is !== 'granted' || answer.attempt !== holder.attempt) return
  const { token, expiresAt } = answer
  if (holder.token === undefined ? token <= queue.lastToken : token !== holder.token) return
  const lease = narrowed(holder.lease, expiresAt)
  if (!lease) return
  yield { ...queue, lastToken: Math.max(queue.lastToken, token), holder: { ...holder, token, lease } }
}

function* renewed(
  queue: ModelWaitQueue,
  until: Instant,
  answer: LockAnswer | undefined,
): Generator<ModelWaitQueue> {
  const holder = queue.holder!
  const lease = latest(holder.lease, until)
  if (answer === undefined) {
    yield { ...queue, holder: { ...holder, lease, takeUp: undefined } }
    return
  }
  if (answer.is !== 'renewed') return
  const exact = narrowed(lease, answer.expiresAt)
  if (exact) yield { ...queue, holder: { ...holder, lease: exact, takeUp: undefined } }
}

/** Whether it is this holder's token; both, if no client has seen the holder's yet. */
function heldBy(
  queue: ModelWaitQueue,
  { who, token }: { readonly who: string; readonly token: number },
): readonly { readonly isHeld: boolean; readonly queue: ModelWaitQueue }[] {
  const { holder } = queue
  if (holder?.who !== who) return [{ isHeld: false, queue }]
  if (holder.token !== undefined) return [{ isHeld: holder.token === token, queue }]
  if (token <= queue.lastToken) return [{ isHeld: false, queue }]
  return [
    { isHeld: false, queue },
    { isHeld: true, queue: { ...queue, lastToken: token, holder: { ...holder, token } } },
  ]
}

function* turnEnded(
  queue: ModelWaitQueue,
  end: { readonly outcome: 'success' | 'failure'; readonly terminal: boolean; readonly value: string },
  at: Instant,
): Generator<ModelWaitQueue> {
  const { attempt } = queue.holder!
  const free = { ...queue, holder: undefined }
  if (end.outcome === 'failure' && !end.terminal) {
    yield* handedOn({ ...free, attempt }, at)
    return
  }
  const isSuccess = end.outcome === 'success'
  const leaving = queue.waiters.filter(({ want }) => !isSuccess || want === 'result')
  const outcomes: Record<string, ModelOutcome> = { ...queue.outcomes }
  const kind = isSuccess ? 'completed' : 'failed'
  for (const { who, position } of leaving)
    outcomes[who] = { kind, value: end.value, isNotified: false, position }
  const waiters = queue.waiters.filter((waiter) => !leaving.includes(waiter))
  yield* handedOn({ ...free, attempt: 0, outcomes, waiters }, at)
}

/** A waiter with a stream learns of a grant at once. */
function windowOf({ isStreamed }: { readonly isStreamed: boolean }, times: HistoryTimes): Instant {
  const ms = isStreamed ? times.streamedTakeUpMs : times.takeUpMs
  return { min: ms, max: ms }
}

function same(a: LockAnswer, b: LockAnswer): boolean {
  return a.is === b.is && isDeepStrictEqual(a, b)
}
