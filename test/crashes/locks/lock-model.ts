/**
 * What a step does to a line, written apart from src/locks/rules so that one does not share the other's mistakes.
 *
 * A step is judged by a clock that is read after it was sent and before it was answered, and a sweep may come by at any
 * time: so a step has several outcomes where it is open whether a lease had run out. `follow` gives every line that
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
  type ModelLine,
  type ModelOutcome,
  type ModelWaiter,
  narrowed,
  positionOf,
  waiterOf,
  without,
} from './lock-queue.ts'

/** Every line that could be after this step, if it was answered so; without an answer, whatever it would have been. */
export function* follow(
  line: ModelLine,
  call: LockCall,
  answer: LockAnswer | undefined,
  clock: Instant,
  times: HistoryTimes,
): Generator<ModelLine> {
  for (const now of swept(line, clock, call.step !== 'inspect')) yield* take(now, call, answer, times)
}

/** A line, and what the clock may show to a step that finds it so. */
interface Now {
  readonly line: ModelLine
  readonly clock: Instant
}

/**
 * The line brought to the present, by sweeps on the way and by the step itself. Looking brings nothing to the present:
 * then a lease that ran out may still stand there.
 */
function* swept(line: ModelLine, clock: Instant, isForced: boolean): Generator<Now> {
  for (const each of withoutLate(line, clock)) yield* advanced(each, clock, isForced)
}

/** Those whose deadline has come may have been removed, wherever they stand. */
function* withoutLate(line: ModelLine, clock: Instant, from = 0): Generator<ModelLine> {
  const index = line.waiters.findIndex(
    ({ deadline }, at) => at >= from && deadline !== undefined && deadline.min <= clock.max,
  )
  if (index < 0) {
    yield line
    return
  }
  yield* withoutLate(line, clock, index + 1)
  const late = line.waiters[index]!
  yield* withoutLate(concluded(without(line, late.who), late, 'timeout'), clock, index)
}

function* advanced(line: ModelLine, clock: Instant, isForced: boolean): Generator<Now> {
  const { holder } = line
  const end = holder && endOf(holder)
  if (!end || !isForced) yield { line, clock }
  else if (end.max > clock.min) yield { line, clock: { min: clock.min, max: Math.min(clock.max, end.max) } }
  if (!end || end.min > clock.max) return
  for (const next of handedOn(lapsed(line), { min: end.min, max: clock.max }))
    yield* advanced(next, clock, isForced)
}

function lapsed(line: ModelLine): ModelLine {
  const holder = line.holder!
  const ended = concluded({ ...line, holder: undefined }, holder, 'lost')
  // One that was never taken up was no attempt.
  return holder.takeUp ? { ...ended, attempt: holder.attempt - 1 } : ended
}

/** A line that nobody holds, after the first who is still there was granted. */
function* handedOn(line: ModelLine, at: Instant): Generator<ModelLine> {
  const [first] = line.waiters
  if (!first) {
    yield { ...line, attempt: 0 }
    return
  }
  const rest = without(line, first.who)
  const { deadline, windowMs } = first
  if (deadline && deadline.min <= at.max) yield* handedOn(concluded(rest, first, 'timeout'), at)
  if (deadline && deadline.max <= at.min) return
  const takeUp = { min: later(at, windowMs.min).min, max: later(at, windowMs.max).max }
  yield granted(rest, first, at, takeUp)
}

function granted(
  line: ModelLine,
  { who, ttlMs, place }: Pick<ModelWaiter, 'who' | 'ttlMs' | 'place'>,
  at: Instant,
  takeUp: Instant | undefined,
): ModelLine {
  const attempt = line.attempt + 1
  return {
    ...line,
    attempt,
    holder: { who, token: undefined, attempt, place, lease: later(at, ttlMs), takeUp },
  }
}

/** The step itself, on a line that is of now. */
function* take(
  now: Now,
  call: LockCall,
  answer: LockAnswer | undefined,
  times: HistoryTimes,
): Generator<ModelLine> {
  const { line, clock: at } = now
  const fits = (is: LockAnswer): boolean => answer === undefined || same(answer, is)
  switch (call.step) {
    case 'acquire':
      yield* acquire(line, call, answer, at, times)
      return
    case 'keep': {
      if (line.holder?.who === call.who) yield* seen(line, answer)
      else if (waiterOf(line, call.who)) yield* waitsOn(line, call, answer, at, times)
      else if (!line.outcomes[call.who]) {
        if (fits({ is: 'no' })) yield line
      } else yield* told(line, call.who, answer)
      return
    }
    case 'release': {
      for (const held of heldBy(line, call)) {
        if (!held.isHeld) {
          if (fits({ is: 'no' })) yield held.line
          continue
        }
        for (const next of turnEnded(held.line, call, at))
          if (fits({ is: 'released', next: next.holder?.who ?? null })) yield next
      }
      return
    }
    case 'renew': {
      for (const held of heldBy(line, call)) {
        if (held.isHeld) yield* renewed(held.line, later(at, call.ttlMs), answer)
        else if (fits({ is: 'no' })) yield held.line
      }
      return
    }
    case 'shorten': {
      for (const held of heldBy(line, call)) {
        if (!held.isHeld) {
          if (fits({ is: 'no' })) yield held.line
          continue
        }
        const holder = held.line.holder!
        const lease = earliest(holder.lease, later(at, call.toMs))
        if (fits({ is: 'shortened' })) yield { ...held.line, holder: { ...holder, lease } }
      }
      return
    }
    case 'leave': {
      const { holder } = line
      if (holder?.who === call.who && !holder.takeUp) {
        if (fits({ is: 'holding' })) yield line
      } else if (holder?.who === call.who) {
        if (!fits({ is: 'left' })) return
        yield* handedOn({ ...line, holder: undefined, attempt: holder.attempt - 1 }, at)
      } else if (waiterOf(line, call.who)) {
        if (fits({ is: 'left' })) yield without(line, call.who)
      } else if (fits({ is: 'no' })) yield line
      return
    }
    case 'evict': {
      const waiter = waiterOf(line, call.who)
      const { holder } = line
      if (holder?.who === call.who) {
        if (!fits({ is: 'evicted' })) return
        const failure = { outcome: 'failure', terminal: false, value: '' } as const
        yield* turnEnded(concluded(line, holder, 'evicted'), failure, at)
      } else if (waiter) {
        if (fits({ is: 'evicted' })) yield concluded(without(line, call.who), waiter, 'evicted')
      } else if (fits({ is: 'no' })) yield line
      return
    }
    case 'inspect': {
      const { holder } = line
      const waiters = line.waiters.map(({ who }) => who)
      const nobody: LockAnswer = { is: 'line', holder: null, attempt: null, waiters }
      if ((!holder || holder.lease.min <= at.max) && fits(nobody)) yield line
      if (!holder || holder.lease.max <= at.min) return
      if (fits({ is: 'line', holder: holder.who, attempt: holder.attempt, waiters })) yield line
    }
  }
}

type Acquire = Extract<LockCall, { readonly step: 'acquire' }>

function* acquire(
  line: ModelLine,
  call: Acquire,
  answer: LockAnswer | undefined,
  at: Instant,
  times: HistoryTimes,
): Generator<ModelLine> {
  const { who, wait, want, ttlMs, deadlineMs } = call
  const { holder } = line
  if (holder?.who === who) {
    yield* seen({ ...line, holder: { ...holder, takeUp: undefined } }, answer)
    return
  }
  if (waiterOf(line, who)) {
    yield* waitsOn(line, call, answer, at, times)
    return
  }
  const outcome = line.outcomes[who]
  if (outcome && !outcome.isTold && outcome.kind !== 'lost') {
    yield* told(line, who, answer)
    return
  }
  if (holder && !wait) {
    if (answer === undefined || same(answer, { is: 'refused', holder: holder.who })) yield line
    return
  }
  const place = outcome?.place ?? line.nextPlace
  const { [who]: _, ...outcomes } = line.outcomes
  const here = { ...line, outcomes, nextPlace: Math.max(line.nextPlace, place + 1) }
  if (!holder) {
    yield* seen(granted(here, { who, ttlMs, place }, at, undefined), answer)
    return
  }
  const deadline = deadlineMs === null ? undefined : later(at, deadlineMs)
  const windowMs = windowOf(call, times)
  const waiters = [...here.waiters, { who, place, want, ttlMs, deadline, windowMs }]
  const joined = { ...here, waiters: waiters.toSorted((a, b) => a.place - b.place) }
  if (answer === undefined || same(answer, { is: 'queued', position: positionOf(joined, who) })) yield joined
}

/** Somebody who waits already is told its place, or that its time is over. */
function* waitsOn(
  line: ModelLine,
  call: { readonly who: string; readonly isStreamed: boolean },
  answer: LockAnswer | undefined,
  at: Instant,
  times: HistoryTimes,
): Generator<ModelLine> {
  const { who } = call
  const waiter = waiterOf(line, who)!
  const { deadline } = waiter
  if (deadline && deadline.min <= at.max) {
    if (answer === undefined || same(answer, { is: 'ended', kind: 'timeout', value: null }))
      yield concluded(without(line, who), waiter, 'timeout', true)
  }
  if (deadline && deadline.max <= at.min) return
  if (answer !== undefined && !same(answer, { is: 'queued', position: positionOf(line, who) })) return
  const windowMs = windowOf(call, times)
  yield { ...line, waiters: line.waiters.map((each) => (each === waiter ? { ...each, windowMs } : each)) }
}

/** Somebody whose wait ended is told how. */
function* told(line: ModelLine, who: string, answer: LockAnswer | undefined): Generator<ModelLine> {
  const outcome = line.outcomes[who]!
  const { kind, value } = outcome
  if (answer !== undefined && !same(answer, { is: 'ended', kind, value })) return
  yield { ...line, outcomes: { ...line.outcomes, [who]: { ...outcome, isTold: true } } }
}

/** The holder is told of its grant: the token is the one it had, or a new one above all that were seen. */
function* seen(line: ModelLine, answer: LockAnswer | undefined): Generator<ModelLine> {
  const holder = line.holder!
  if (answer === undefined) {
    yield line
    return
  }
  if (answer.is !== 'granted' || answer.attempt !== holder.attempt) return
  const { token, expiresAt } = answer
  if (holder.token === undefined ? token <= line.lastToken : token !== holder.token) return
  const lease = narrowed(holder.lease, expiresAt)
  if (!lease) return
  yield { ...line, lastToken: Math.max(line.lastToken, token), holder: { ...holder, token, lease } }
}

function* renewed(line: ModelLine, until: Instant, answer: LockAnswer | undefined): Generator<ModelLine> {
  const holder = line.holder!
  const lease = latest(holder.lease, until)
  if (answer === undefined) {
    yield { ...line, holder: { ...holder, lease, takeUp: undefined } }
    return
  }
  if (answer.is !== 'renewed') return
  const exact = narrowed(lease, answer.expiresAt)
  if (exact) yield { ...line, holder: { ...holder, lease: exact, takeUp: undefined } }
}

/** Whether it is this holder's token; both, where nobody has seen the holder's yet. */
function heldBy(
  line: ModelLine,
  { who, token }: { readonly who: string; readonly token: number },
): readonly { readonly isHeld: boolean; readonly line: ModelLine }[] {
  const { holder } = line
  if (holder?.who !== who) return [{ isHeld: false, line }]
  if (holder.token !== undefined) return [{ isHeld: holder.token === token, line }]
  if (token <= line.lastToken) return [{ isHeld: false, line }]
  return [
    { isHeld: false, line },
    { isHeld: true, line: { ...line, lastToken: token, holder: { ...holder, token } } },
  ]
}

function* turnEnded(
  line: ModelLine,
  end: { readonly outcome: 'success' | 'failure'; readonly terminal: boolean; readonly value: string },
  at: Instant,
): Generator<ModelLine> {
  const { attempt } = line.holder!
  const free = { ...line, holder: undefined }
  if (end.outcome === 'failure' && !end.terminal) {
    yield* handedOn({ ...free, attempt }, at)
    return
  }
  const isSuccess = end.outcome === 'success'
  const leaving = line.waiters.filter(({ want }) => !isSuccess || want === 'result')
  const outcomes: Record<string, ModelOutcome> = { ...line.outcomes }
  const kind = isSuccess ? 'completed' : 'failed'
  for (const { who, place } of leaving) outcomes[who] = { kind, value: end.value, isTold: false, place }
  const waiters = line.waiters.filter((waiter) => !leaving.includes(waiter))
  yield* handedOn({ ...free, attempt: 0, outcomes, waiters }, at)
}

/** Who has a stream hears of a grant at once. */
function windowOf({ isStreamed }: { readonly isStreamed: boolean }, times: HistoryTimes): Instant {
  const ms = isStreamed ? times.streamedTakeUpMs : times.takeUpMs
  return { min: ms, max: ms }
}

function same(a: LockAnswer, b: LockAnswer): boolean {
  return a.is === b.is && isDeepStrictEqual(a, b)
}
