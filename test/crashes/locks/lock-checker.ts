/**
 * Checks that a single wait queue could have given a history of calls, one call at a time, each at some moment between
 * its sending and its answer: whether the history is linearizable against lock-model.ts. This covers exclusion (L1),
 * rising tokens (L2), order of arrival among waiters that stay (L4), owner only (L5), hand-over in the same step and
 * one outcome for all waiters (L6), and the same answer for the same request (L7).
 *
 * Wait queues are judged one by one (linearizability is local). The search is Lowe's just-in-time form of Wing and
 * Gong's: events are taken in order. At every answer, each wait queue that is still possible is followed through every
 * order of the concurrent calls that ends with the answered one, and impossible ones are dropped. The rest is a set of
 * possible wait queues, mostly one; when it is empty, no order explains the history. A call without an answer may take
 * effect or not, until its end. Wait queues that differ only in the time of a grant, which is known within milliseconds
 * anyway, count as one with wider bounds; otherwise the search is exact. A pure function.
 */

import { follow } from './lock-model.ts'
import type { HistoryTimes, LockOperation } from './lock-operation.ts'
import { covers, type ModelWaitQueue, merged, untouched } from './lock-queue.ts'

export interface LockVerdict {
  /** Empty when every wait queue's history is explained. */
  readonly complaints: readonly string[]
  readonly counts: {
    readonly operations: number
    readonly queues: number
    /** Calls without an answer. */
    readonly unanswered: number
    /** Tokens that a client saw. */
    readonly grants: number
    /** The most wait queues that were possible at once. */
    readonly possibilities: number
    /** Wait queues whose history was explained up to a point, from which on there were too many orders to try. */
    readonly undecided: number
  }
}

/** More would mean that the history says too little; no real one comes near. */
const mostPossibilities = 200_000
/** Many calls under way at once have very many orders. Histories take some thousands; more than these would go on for minutes, or for ever. */
const mostTries = 300_000

export function checkLocks(
  history: readonly LockOperation[],
  times: HistoryTimes,
  tries: number = mostTries,
): LockVerdict {
  const complaints: string[] = []
  let possibilities = 0
  let undecided = 0
  // A read without an answer proves nothing.
  const telling = history.filter(({ call, answer }) => call.step !== 'inspect' || answer !== undefined)
  const byQueue = Map.groupBy(telling, ({ queue }) => queue)
  for (const [queue, operations] of byQueue) {
    const search = new Search(operations, times, tries)
    const complaint = search.run()
    if (search.isGivenUp) undecided++
    else if (complaint !== undefined) complaints.push(`queue ${queue}: ${complaint}`)
    possibilities = Math.max(possibilities, search.most)
  }
  const tokens = history.flatMap(({ queue, answer }) =>
    answer?.is === 'granted' ? [`${queue} ${answer.token}`] : [],
  )
  return {
    complaints,
    counts: {
      operations: history.length,
      queues: byQueue.size,
      unanswered: history.filter(({ answer }) => answer === undefined).length,
      grants: new Set(tokens).size,
      possibilities,
      undecided,
    },
  }
}

/** A wait queue that is possible by now, and the calls under way that have taken effect in it: those with an answer, those without. */
interface Possible {
  readonly queue: ModelWaitQueue
  readonly done: ReadonlySet<LockOperation>
  readonly unheard: ReadonlySet<LockOperation>
}

class Search {
  readonly #operations: readonly LockOperation[]
  readonly #times: HistoryTimes
  readonly #lastOf: ReadonlyMap<string, LockOperation>
  readonly #underWay = new Set<LockOperation>()
  /** Clients that have made their last call. */
  readonly #silent = new Set<string>()
  #possible: readonly Possible[] = [{ queue: untouched, done: new Set(), unheard: new Set() }]
  most = 1
  #triesLeft: number

  constructor(operations: readonly LockOperation[], times: HistoryTimes, tries: number) {
    this.#operations = operations
    this.#times = times
    this.#triesLeft = tries
    const lastOf = new Map<string, LockOperation>()
    for (const operation of operations) {
      const who = whoOf(operation)
      if (who !== undefined && operation.to > (lastOf.get(who)?.to ?? 0)) lastOf.set(who, operation)
    }
    this.#lastOf = lastOf
  }

  /** There were too many orders: what came before is explained, and of the rest nothing is known. */
  get isGivenUp(): boolean {
    return this.#triesLeft <= 0
  }

  /** What cannot be explained; undefined when everything can. */
  run(): string | undefined {
    const events = this.#operations.flatMap((operation) => [
      { at: operation.from, operation, isEnd: false },
      { at: operation.to, operation, isEnd: true },
    ])
    for (const { operation, isEnd } of events.sort((a, b) => a.at - b.at)) {
      if (!isEnd) {
        this.#underWay.add(operation)
        continue
      }
      const before = this.#possible
      this.#possible = this.#after(operation)
      if (this.isGivenUp) return undefined
      this.#underWay.delete(operation)
      this.#forget(operation)
      this.most = Math.max(this.most, this.#possible.length)
      if (this.#possible.length === 0) return explain(operation, before, this.#underWay)
      if (this.#possible.length > mostPossibilities)
        return `${this.#possible.length} wait queues are possible after ${describe(operation)}: too many to go on`
    }
    return undefined
  }

  /** All that is possible once this call has ended. */
  #after(ended: LockOperation): readonly Possible[] {
    const found = new Possibilities()
    const looked = new Possibilities()
    const open: Possible[] = []
    for (const each of this.#possible) {
      if (each.done.has(ended)) found.add({ ...each, done: minus(each.done, ended) })
      else if (each.unheard.has(ended)) found.add({ ...each, unheard: minus(each.unheard, ended) })
      else {
        // It may not have taken effect at all.
        if (ended.answer === undefined) found.add(each)
        open.push(each)
      }
    }
    for (let each = open.pop(); each; each = open.pop()) {
      for (const operation of this.#underWay) {
        if (each.done.has(operation) || each.unheard.has(operation)) continue
        if (--this.#triesLeft <= 0) return []
        const { call, answer, sentAt } = operation
        const clock = { min: sentAt, max: ended.endedAt }
        for (const queue of follow(each.queue, call, answer, clock, this.#times)) {
          const next = { ...each, queue: this.#known(queue) }
          if (operation === ended) found.add(next)
          else {
            const further = looked.add(withDone(next, operation))
            if (further) open.push(further)
          }
        }
      }
    }
    return found.all()
  }

  /** The last call of a request: no client asks for its outcome later. */
  #forget(ended: LockOperation): void {
    const who = whoOf(ended)
    if (who === undefined || this.#lastOf.get(who) !== ended) return
    this.#silent.add(who)
    const found = new Possibilities()
    for (const each of this.#possible) found.add({ ...each, queue: this.#known(each.queue) })
    this.#possible = found.all()
  }

  /** The wait queue without outcomes that no client will ask for. */
  #known(queue: ModelWaitQueue): ModelWaitQueue {
    const outcomes = Object.entries(queue.outcomes).filter(([who]) => !this.#silent.has(who))
    return { ...queue, outcomes: Object.fromEntries(outcomes) }
  }
}

/** Possible wait queues, without those whose every future is also another's. */
class Possibilities {
  readonly #byName = new Map<string, readonly Possible[]>()

  all(): readonly Possible[] {
    return [...this.#byName.values()].flat()
  }

  /** Adds it, or widens one that differs in its times alone; answers what is new, if anything is. */
  add(possible: Possible): Possible | undefined {
    const name = nameOf(possible)
    const known = this.#byName.get(name) ?? []
    if (known.some((each) => includes(each, possible))) return undefined
    const like = known.find(({ unheard }) => isEqual(unheard, possible.unheard))
    const added = like ? { ...possible, queue: merged(like.queue, possible.queue) } : possible
    const others = known.filter((each) => each !== like && !includes(added, each))
    this.#byName.set(name, [...others, added])
    return added
  }
}

/** An unanswered call may also not have happened, so fewer of them leave more possibilities. */
function includes(one: Possible, other: Possible): boolean {
  return isWithin(one.unheard, other.unheard) && covers(one.queue, other.queue)
}

function withDone(possible: Possible, operation: LockOperation): Possible {
  if (operation.answer === undefined)
    return { ...possible, unheard: new Set([...possible.unheard, operation]) }
  return { ...possible, done: new Set([...possible.done, operation]) }
}

/** Two that have the same name differ in their times, and in what was done unheard. Places count by their order alone. */
function nameOf({ queue, done }: Possible): string {
  const { holder, attempt, waiters, outcomes, lastToken } = queue
  const ended = Object.entries(outcomes).sort(([a], [b]) => (a < b ? -1 : 1))
  const positions = [
    ...(holder ? [holder.position] : []),
    ...waiters.map(({ position }) => position),
    ...ended.map(([, { position }]) => position),
  ].sort((a, b) => a - b)
  const rank = (position: number) => positions.indexOf(position)
  return JSON.stringify([
    holder && [holder.who, holder.token, holder.attempt, rank(holder.position), holder.takeUp !== undefined],
    attempt,
    waiters.map(({ who, position, want, ttlMs, deadline }) => [who, rank(position), want, ttlMs, !deadline]),
    ended.map(([who, outcome]) => [
      who,
      outcome.kind,
      outcome.value,
      outcome.isNotified,
      rank(outcome.position),
    ]),
    lastToken,
    [...done].map(({ from }) => from).sort((a, b) => a - b),
  ])
}

function isWithin(part: ReadonlySet<LockOperation>, whole: ReadonlySet<LockOperation>): boolean {
  return part.size <= whole.size && [...part].every((operation) => whole.has(operation))
}

function isEqual(a: ReadonlySet<LockOperation>, b: ReadonlySet<LockOperation>): boolean {
  return a.size === b.size && isWithin(a, b)
}

function minus(set: ReadonlySet<LockOperation>, operation: LockOperation): ReadonlySet<LockOperation> {
  const rest = new Set(set)
  rest.delete(operation)
  return rest
}

function whoOf({ call }: LockOperation): string | undefined {
  return call.step === 'inspect' ? undefined : call.who
}

function explain(
  operation: LockOperation,
  before: readonly Possible[],
  underWay: ReadonlySet<LockOperation>,
): string {
  const queues = before.slice(0, 3).map(({ queue }) => show(queue))
  const others = [...underWay].filter((each) => each !== operation).map(describe)
  return [
    `no order explains ${describe(operation)}`,
    `possible before: ${queues.join(' or ')}${before.length > 3 ? ` or ${before.length - 3} others` : ''}`,
    `under way: ${others.join('; ') || 'nothing else'}`,
  ].join('\n  ')
}

function describe({ client, call, answer, sentAt, endedAt, from, to }: LockOperation): string {
  const span = `${from}–${to}, ${Math.round(sentAt)}–${Math.round(endedAt)} ms`
  return `${client}: ${JSON.stringify(call)} → ${answer ? JSON.stringify(answer) : 'no answer'} (${span})`
}

function show({ holder, attempt, waiters, outcomes, lastToken }: ModelWaitQueue): string {
  return JSON.stringify({ holder, attempt, waiters: waiters.map(({ who }) => who), outcomes, lastToken })
}
