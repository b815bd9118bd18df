import type { Outcome, Requester, Waiter, WaitQueueRow } from '../../../locks/rules/index.ts'
import type { Procedure } from '../procedure.ts'
import type { ProcedureRows } from './run-rule.ts'
import type { WaitQueueSave } from './wait-queue-record.ts'

/**
 * The rows of one wait queue during one transaction, for an engine across a connection. It reads each row once. It
 * collects writes and sends them with the next question, or with the COMMIT. So most steps take three trips: lock and
 * read, mint a token, write and commit.
 *
 * It knows the first waiters (all of them where they are few) and how many there are. A position that was given out in
 * this transaction is behind all older ones, so counting those before it takes no question either.
 */
export class WaitQueueBuffer implements ProcedureRows {
  readonly #calls: WaitQueueCalls
  readonly #now: number
  readonly #operation: string
  #row: WaitQueueRow | undefined
  #dueAt: number | null
  /** No waiter that was read has a later position. */
  readonly #openedRevision: number
  #hasOutcomes: boolean
  #waiterCount: number
  /** The first of the wait queue, in order. */
  #head: Waiter[]
  /** Null: it does not wait. */
  readonly #waiters = new Map<string, Waiter | null>()
  readonly #outcomes = new Map<string, Outcome | null>()
  /** The ends whose text the store has. */
  readonly #results = new Set<number>()
  /** How many stand before the one found last. */
  #before: { readonly seq: number; readonly count: number } | undefined
  #pending: Pending = createPending()
  #isQueueChanged = false
  #hasWritten = false
  readonly #isNew: boolean
  readonly #storedProgress: string | null
  readonly #storedCount: number

  constructor(calls: WaitQueueCalls, opened: OpenedWaitQueue) {
    this.#calls = calls
    this.#now = opened.now
    this.#operation = opened.operation
    this.#row = opened.row
    this.#isNew = opened.row === undefined
    this.#dueAt = opened.dueAt
    this.#openedRevision = opened.row?.revision ?? 0
    this.#hasOutcomes = opened.hasOutcomes
    this.#waiterCount = opened.waiterCount
    this.#storedCount = opened.waiterCount
    this.#storedProgress = opened.row?.holder?.progress ?? null
    this.#head = []
    this.#setHead(opened.head, openedHeadSize)
  }

  operation(): string {
    return this.#operation
  }

  clock(): { now: number; wall: number } {
    return { now: this.#now, wall: this.#now }
  }

  queue(): WaitQueueRow | undefined {
    return this.#row
  }

  /** Whether its time has come, as it was read or written last. */
  get isDue(): boolean {
    return this.#dueAt !== null && this.#dueAt <= this.#now
  }

  saveQueue(row: WaitQueueRow, dueAt: number | null): void {
    this.#row = row
    this.#dueAt = dueAt
    this.#isQueueChanged = true
  }

  mintToken(): Procedure<number> {
    return this.#calls.mintToken()
  }

  *waiter(who: Requester): Procedure<Waiter | undefined> {
    const id = idOf(who)
    if (!this.#waiters.has(id)) {
      if (this.#isHeadAll) return undefined
      yield* this.#find(who, id)
    }
    return this.#waiters.get(id) ?? undefined
  }

  *firstWaiter(): Procedure<Waiter | undefined> {
    if (this.#head.length === 0 && this.#waiterCount > 0) {
      this.#setHead(yield* this.#calls.head(laterHeadSize, this.#takeWrites()), laterHeadSize)
    }
    return this.#head[0]
  }

  *countWaiters(beforeSeq?: number): Procedure<number> {
    if (beforeSeq === undefined) return this.#waiterCount
    if (this.#isHeadAll) return this.#head.filter(({ seq }) => seq < beforeSeq).length
    if (beforeSeq > this.#openedRevision) {
      const behind = [...this.#waiters.values()].filter((waiter) => waiter && waiter.seq >= beforeSeq)
      return this.#waiterCount - behind.length
    }
    if (this.#before?.seq === beforeSeq) return this.#before.count
    return yield* this.#calls.countBefore(beforeSeq, this.#takeWrites())
  }

  *saveWaiter(waiter: Waiter): Procedure<void> {
    const known = yield* this.waiter(waiter)
    const at = this.#head.findIndex((other) => isSame(other, waiter))
    if (at >= 0) this.#head[at] = waiter
    else if (!known) this.#admit(waiter)
    this.#waiters.set(idOf(waiter), waiter)
    this.#pending.waiters.set(idOf(waiter), waiter)
  }

  *removeWaiter(who: Requester): Procedure<void> {
    const waiter = yield* this.waiter(who)
    if (!waiter) return
    this.#before = undefined
    this.#head = this.#head.filter((other) => !isSame(other, who))
    this.#waiterCount--
    this.#waiters.set(idOf(who), null)
    // It may be stored, or only about to be, and at another position than it was stored at: each position it had is cleared.
    this.#pending.waiters.delete(idOf(who))
    this.#pending.goneSeqs.add(waiter.seq)
  }

  *outcome(who: Requester): Procedure<Outcome | undefined> {
    const id = idOf(who)
    if (!this.#outcomes.has(id)) {
      if (!this.#hasOutcomes) return undefined
      yield* this.#find(who, id)
    }
    const outcome = this.#outcomes.get(id)
    return outcome && outcome.keptUntil > this.#now ? outcome : undefined
  }

  saveOutcome(outcome: Outcome): void {
    const { value, revision, keptUntil } = outcome
    if (value !== null && !this.#results.has(revision)) {
      this.#results.add(revision)
      this.#pending.results.push({ revision, value, keptUntil })
    }
    this.#outcomes.set(idOf(outcome), outcome)
    this.#pending.outcomes.set(idOf(outcome), { who: outcome, outcome })
  }

  removeOutcome(who: Requester): void {
    this.#outcomes.set(idOf(who), null)
    this.#pending.outcomes.set(idOf(who), { who, outcome: null })
  }

  *dissolve(
    wants: 'result' | 'all',
    outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>,
  ): Procedure<number> {
    if (this.#waiterCount === 0) return 0
    this.#hasWritten = true
    const count = yield* this.#calls.dissolve(wants, outcome, this.#takeWrites())
    const stays = ({ want }: Waiter) => wants === 'result' && want === 'turn'
    for (const [id, waiter] of this.#waiters) if (waiter && !stays(waiter)) this.#waiters.set(id, null)
    this.#head = this.#head.filter(stays)
    this.#waiterCount -= count
    this.#before = undefined
    this.#outcomes.clear()
    this.#hasOutcomes = true
    this.#results.add(outcome.revision)
    return count
  }

  /** Notes waiters that were read beside the head, so that they need not be asked for. */
  remember(waiters: readonly Waiter[]): void {
    for (const waiter of waiters) {
      const id = idOf(waiter)
      if (!this.#waiters.has(id)) this.#waiters.set(id, waiter)
    }
  }

  /** All that is still to be written, for the caller to send with the COMMIT. */
  lastWrites(): WaitQueueWrites {
    const isChanged = this.#isQueueChanged || this.#waiterCount !== this.#storedCount
    const row = isChanged ? this.#row : undefined
    if (!row) return this.#takeWrites()
    const writesProgress = (row.holder?.progress ?? null) !== this.#storedProgress
    const [isNew, dueAt, waiterCount] = [this.#isNew, this.#dueAt, this.#waiterCount]
    this.#hasWritten = true
    return { ...this.#takeWrites(), queue: { row, isNew, dueAt, waiterCount, writesProgress } }
  }

  /** Whether anything was given out to be written. */
  get hasWritten(): boolean {
    return this.#hasWritten
  }

  /** The writes that must precede a question. The wait queue's row is not among them: it is never read again. */
  #takeWrites(): WaitQueueWrites {
    const { goneSeqs, waiters, outcomes, results } = this.#pending
    this.#pending = createPending()
    const outcomeChanges = [...outcomes.values()]
    this.#hasWritten ||= goneSeqs.size + waiters.size + outcomes.size + results.length > 0
    return {
      queue: undefined,
      goneSeqs: [...goneSeqs],
      waiters: [...waiters.values()],
      goneOutcomes: outcomeChanges.filter(({ outcome }) => !outcome).map(({ who }) => who),
      outcomes: outcomeChanges.flatMap(({ outcome }) => outcome ?? []),
      results,
    }
  }

  get #isHeadAll(): boolean {
    return this.#head.length === this.#waiterCount
  }

  #setHead(head: readonly Waiter[], limit: number): void {
    this.#head = [...head]
    // The whole wait queue was read, so it says itself how long it is.
    if (head.length < limit) this.#waiterCount = head.length
    this.remember(head)
  }

  /** A newcomer, who has its position in the head where that reaches so far. */
  #admit(waiter: Waiter): void {
    const last = this.#head.at(-1)
    if (this.#isHeadAll || (last && waiter.seq < last.seq)) {
      const at = this.#head.findIndex(({ seq }) => seq > waiter.seq)
      this.#head.splice(at < 0 ? this.#head.length : at, 0, waiter)
    }
    this.#waiterCount++
    this.#before = undefined
  }

  *#find(who: Requester, id: string): Procedure<void> {
    const { waiter, before, outcome } = yield* this.#calls.find(who, this.#takeWrites())
    if (!this.#waiters.has(id)) this.#waiters.set(id, waiter ?? null)
    if (!this.#outcomes.has(id)) this.#outcomes.set(id, outcome ?? null)
    if (waiter) this.#before = { seq: waiter.seq, count: before }
    if (outcome && outcome.value !== null) this.#results.add(outcome.revision)
  }
}

/** How many waiters are read with the wait queue. Most wait queues are shorter, and then nobody has to be looked for in it. */
export const openedHeadSize = 64
/** How many are read when those have been passed over. */
const laterHeadSize = 100

/** A wait queue that was locked and read. */
export interface OpenedWaitQueue {
  readonly operation: string
  /** The store's clock, read after the wait queue was locked. */
  readonly now: number
  readonly row: WaitQueueRow | undefined
  readonly dueAt: number | null
  readonly waiterCount: number
  /** The first `openedHeadSize` who wait. */
  readonly head: readonly Waiter[]
  readonly hasOutcomes: boolean
}

/** What an engine does on a wait queue that it has locked. Each is one trip, and what is to be written goes first. */
export interface WaitQueueCalls {
  find(who: Requester, writes: WaitQueueWrites): Procedure<FoundRequester>
  head(limit: number, writes: WaitQueueWrites): Procedure<readonly Waiter[]>
  countBefore(seq: number, writes: WaitQueueWrites): Procedure<number>
  dissolve(
    wants: 'result' | 'all',
    outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>,
    writes: WaitQueueWrites,
  ): Procedure<number>
  mintToken(): Procedure<number>
}

export interface FoundRequester {
  readonly waiter: Waiter | undefined
  /** How many stand before it. */
  readonly before: number
  readonly outcome: Outcome | undefined
}

export interface WaitQueueWrites {
  readonly queue: WaitQueueSave | undefined
  /** The positions of those who left; cleared before others are written. */
  readonly goneSeqs: readonly number[]
  readonly waiters: readonly Waiter[]
  readonly goneOutcomes: readonly Requester[]
  readonly outcomes: readonly Outcome[]
  readonly results: readonly WaitQueueResult[]
}

/** The text that ended a wait queue, stored once for all waiters. */
export interface WaitQueueResult {
  readonly revision: number
  readonly value: string
  readonly keptUntil: number
}

interface Pending {
  readonly goneSeqs: Set<number>
  readonly waiters: Map<string, Waiter>
  readonly outcomes: Map<string, { readonly who: Requester; readonly outcome: Outcome | null }>
  readonly results: WaitQueueResult[]
}

function createPending(): Pending {
  return { goneSeqs: new Set(), waiters: new Map(), outcomes: new Map(), results: [] }
}

function isSame(a: Requester, b: Requester): boolean {
  return a.node === b.node && a.requestId === b.requestId
}

/** No two requesters have the same. */
function idOf({ node, requestId }: Requester): string {
  return `${node.length}:${node}${requestId}`
}
