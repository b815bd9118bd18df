import type { Outcome, Requester, Waiter, WaitQueueRow } from '../../../locks/rules/index.ts'
import type { Procedure } from '../procedure.ts'
import type { ProcedureRows } from './run-rule.ts'
import type { WaitQueueSave } from './wait-queue-record.ts'

/**
 * The rows of one wait queue during one transaction, for an engine across a connection. The buffer reads each row once.
 * It collects writes and sends them with the next query or with the COMMIT. So most steps take three round trips: lock
 * and read, mint a token, write and commit.
 *
 * The buffer knows the first waiters (all of them in a short queue) and the number of waiters. A position that this
 * transaction assigned is behind all older ones, so counting the positions before it needs no query.
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
  /** The first waiters, in order. */
  #head: Waiter[]
  /** Null: the requester does not wait. */
  readonly #waiters = new Map<string, Waiter | null>()
  readonly #outcomes = new Map<string, Outcome | null>()
  /** The revisions whose result text is already stored. */
  readonly #results = new Set<number>()
  /** The number of waiters before the waiter that was found last. */
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

  /** Whether the wait queue was due when it was last read or written. */
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
    // The waiter may be stored, perhaps at another position, or not yet written. Clear each position that it had.
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

  /** Remembers waiters that were read in addition to the head, so that no query asks for them. */
  remember(waiters: readonly Waiter[]): void {
    for (const waiter of waiters) {
      const id = idOf(waiter)
      if (!this.#waiters.has(id)) this.#waiters.set(id, waiter)
    }
  }

  /** The remaining writes. The caller sends them with the COMMIT. */
  lastWrites(): WaitQueueWrites {
    const isChanged = this.#isQueueChanged || this.#waiterCount !== this.#storedCount
    const row = isChanged ? this.#row : undefined
    if (!row) return this.#takeWrites()
    const writesProgress = (row.holder?.progress ?? null) !== this.#storedProgress
    const [isNew, dueAt, waiterCount] = [this.#isNew, this.#dueAt, this.#waiterCount]
    this.#hasWritten = true
    return { ...this.#takeWrites(), queue: { row, isNew, dueAt, waiterCount, writesProgress } }
  }

  /** Whether the buffer handed out any writes. */
  get hasWritten(): boolean {
    return this.#hasWritten
  }

  /**
   * The writes that must precede a query. The row of the wait queue is not among them, because no query reads it again.
   */
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
    // The whole wait queue was read, so its length is known.
    if (head.length < limit) this.#waiterCount = head.length
    this.remember(head)
  }

  /** Adds a new waiter. It enters the head if the head reaches to its position. */
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

/** The number of waiters to read with the wait queue. Most wait queues are shorter and need no further query. */
export const openedHeadSize = 64
/** The number of waiters to read after all of those left. */
const laterHeadSize = 100

/** A wait queue after it was locked and read. */
export interface OpenedWaitQueue {
  readonly operation: string
  /** The store's clock, read after the wait queue was locked. */
  readonly now: number
  readonly row: WaitQueueRow | undefined
  readonly dueAt: number | null
  readonly waiterCount: number
  /** The first `openedHeadSize` waiters. */
  readonly head: readonly Waiter[]
  readonly hasOutcomes: boolean
}

/** The queries of an engine on a locked wait queue. Each is one round trip, which sends the writes first. */
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
  /** The number of waiters before this one. */
  readonly before: number
  readonly outcome: Outcome | undefined
}

export interface WaitQueueWrites {
  readonly queue: WaitQueueSave | undefined
  /** The positions of waiters that left. They are deleted before other rows are written. */
  readonly goneSeqs: readonly number[]
  readonly waiters: readonly Waiter[]
  readonly goneOutcomes: readonly Requester[]
  readonly outcomes: readonly Outcome[]
  readonly results: readonly WaitQueueResult[]
}

/** The result text of a wait queue, stored once for all waiters. */
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

/** A unique key for a requester. */
function idOf({ node, requestId }: Requester): string {
  return `${node.length}:${node}${requestId}`
}
