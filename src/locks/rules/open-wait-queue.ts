import type { AcquireRequest, Grant, HolderView, LockTimes, Notified, Rule, Ruled, Standing } from './rule.ts'
import type {
  Holder,
  LastOutcome,
  Outcome,
  OutcomeKind,
  Requester,
  Waiter,
  WaitQueueRow,
  WaitQueueRows,
} from './wait-queue.ts'
import { groupOf, WaitQueueGroup } from './wait-queue-group.ts'

/** A wait queue while one rule runs. The rule changes it in memory; `close` writes the changes. */
export class OpenWaitQueue {
  #row: WaitQueueRow
  readonly #now: number
  readonly #wall: number
  readonly #aheadMs: number
  readonly #times: LockTimes
  #changed = false
  #everyone = false
  #lapsed = false
  /** The wait queues of the operations that this one excludes, if any: all are decided together. */
  #group: WaitQueueGroup | undefined
  readonly #requesters: Requester[] = []

  constructor(row: WaitQueueRow, clock: ReturnType<WaitQueueRows['clock']>, times: LockTimes) {
    const { now, wall, aheadMs = wall - now } = clock
    this.#row = row
    this.#now = now
    this.#wall = wall
    this.#aheadMs = aheadMs
    this.#times = times
  }

  joinGroup(group: WaitQueueGroup): void {
    this.#group = group
  }

  /** Brings the wait queue to the present: ends an expired holder and grants the lock to the first waiter. */
  *advance(): Rule<void> {
    if (this.#group) return yield* this.#group.settle()
    yield* this.lapseIfOver()
    if (!this.#row.holder) yield* this.#grantNext()
  }

  *lapseIfOver(): Rule<void> {
    const { holder } = this.#row
    if (holder && endOf(holder) <= this.#now) yield* this.#lapse(holder)
  }

  /** Held, or in the lock delay after a lost lease. */
  get isTaken(): boolean {
    return this.#row.holder !== null || this.#row.grantFrom > this.#now
  }

  get revision(): number {
    return this.#row.revision
  }

  *#lapse(holder: Holder): Rule<void> {
    yield* this.#conclude(holder, 'lost', null)
    if (holder.takeUpBy !== null) {
      // The holder never took up its grant, so the attempt does not count.
      this.#change({ holder: null, attempt: holder.attempt - 1 })
      return
    }
    this.#lapsed = true
    this.#change({
      holder: null,
      grantFrom: holder.leaseEndsAt + this.#times.lockDelayMs,
      lastOutcome: this.#lastOutcome('failure', holder, leaseRanOut),
    })
  }

  *#grantNext(): Rule<void> {
    if (this.#group) return yield* this.#group.settle()
    if (this.#row.grantFrom > this.#now) return
    const waiter = yield* this.firstLive()
    if (waiter) yield* this.grantWaiter(waiter)
  }

  *first(): Rule<Waiter | undefined> {
    return yield ['firstWaiter']
  }

  /** The first waiter whose lease and deadline are not over. Ends the waits before it. */
  *firstLive(): Rule<Waiter | undefined> {
    while (true) {
      const waiter = yield* this.first()
      if (!waiter) {
        // No waiter takes over, so the next holder begins with attempt 1.
        if (this.#row.attempt > 0) this.#change({ attempt: 0 })
        return undefined
      }
      const gone = this.#goneBy(waiter)
      if (gone === undefined) return waiter
      yield ['removeWaiter', waiter]
      yield* this.#conclude(waiter, gone, null)
    }
  }

  *grantWaiter(waiter: Waiter): Rule<void> {
    yield ['removeWaiter', waiter]
    const { streamedTakeUpMs, takeUpMs } = this.#times
    yield* this.#grant(waiter, this.#now + (waiter.isStreamed ? streamedTakeUpMs : takeUpMs))
  }

  #goneBy({ leaseEndsAt, deadlineAt }: Waiter): 'timeout' | 'lost' | undefined {
    if (deadlineAt !== null && deadlineAt <= this.#now) return 'timeout'
    return leaseEndsAt <= this.#now ? 'lost' : undefined
  }

  *#grant(
    { node, requestId, ttlMs, seq }: Requester & { readonly ttlMs: number; readonly seq: number },
    takeUpBy: number | null,
  ): Rule<void> {
    const token: number = yield ['mintToken']
    const attempt = this.#row.attempt + 1
    this.#change({
      attempt,
      holder: {
        node,
        requestId,
        token,
        attempt,
        since: this.#wall,
        ttlMs,
        leaseEndsAt: this.#now + ttlMs,
        takeUpBy,
        seq,
        progress: null,
      },
    })
    this.#requesters.push({ node, requestId })
  }

  /** Takes up the grant of a request, renews its wait, delivers its outcome, grants it the lock, or adds it as a waiter. */
  *answerAcquire(request: AcquireRequest): Rule<Standing> {
    const { holder } = this.#row
    if (holder && isSame(holder, request)) return this.#takeUp(holder)

    const kept = yield* this.#renewOrEndWait(request, request.isStreamed)
    if (kept) return kept

    const outcome: Outcome | undefined = yield ['outcome', request]
    if (outcome && !outcome.isNotified && outcome.kind !== 'lost') {
      yield ['saveOutcome', { ...outcome, isNotified: true }]
      return { status: 'ended', kind: outcome.kind, value: outcome.value }
    }

    const seq = outcome?.seq ?? this.#nextRevision()
    // After `advance`, a wait queue outside a group has no waiters unless it has a holder or a delay.
    const isFree = this.#group ? yield* this.#group.isFreeFor(seq) : !this.isTaken
    if (!isFree && !request.wait)
      return { status: 'refused', holder: this.holderView() ?? this.#group?.otherHolder() ?? null }
    if (isFree) {
      if (outcome) yield ['removeOutcome', request]
      yield* this.#grant({ ...request, seq }, null)
      return this.#granted(this.#row.holder!)
    }
    return yield* this.#join(request, seq, outcome !== undefined)
  }

  *#join(request: AcquireRequest, seq: number, hasOutcome: boolean): Rule<Standing> {
    const waiters: number = yield ['countWaiters']
    if (waiters >= this.#times.maxWaiters) return { status: 'full', waiters }
    if (hasOutcome) yield ['removeOutcome', request]
    yield [
      'saveWaiter',
      {
        node: request.node,
        requestId: request.requestId,
        seq,
        want: request.want,
        ttlMs: request.ttlMs,
        since: this.#wall,
        leaseEndsAt: this.#now + this.#times.waiterLeaseMs,
        deadlineAt: request.deadlineMs === null ? null : this.#now + request.deadlineMs,
        isStreamed: request.isStreamed,
      },
    ]
    this.#change({})
    return yield* this.#queued(seq)
  }

  /**
   * Renews the wait of a requester and answers its position. Ends the wait if its deadline passed. Undefined: the
   * requester does not wait.
   */
  *#renewOrEndWait(who: Requester, isStreamed: boolean): Rule<Standing | undefined> {
    const waiter: Waiter | undefined = yield ['waiter', who]
    if (!waiter) return undefined
    if (waiter.deadlineAt !== null && waiter.deadlineAt <= this.#now) {
      yield ['removeWaiter', who]
      yield* this.#conclude(waiter, 'timeout', null, true)
      return { status: 'ended', kind: 'timeout', value: null }
    }
    // A waiter whose lease expired unnoticed keeps its position, because it has just asked.
    const leaseEndsAt = this.#now + this.#times.waiterLeaseMs
    yield ['saveWaiter', { ...waiter, leaseEndsAt, isStreamed }]
    return yield* this.#queued(waiter.seq)
  }

  *keepPosition(who: Requester, isStreamed: boolean): Rule<Standing | undefined> {
    const { holder } = this.#row
    if (holder && isSame(holder, who)) return this.#granted(holder)
    const kept = yield* this.#renewOrEndWait(who, isStreamed)
    if (kept) return kept
    const outcome: Outcome | undefined = yield ['outcome', who]
    if (!outcome) return undefined
    if (!outcome.isNotified) yield ['saveOutcome', { ...outcome, isNotified: true }]
    return { status: 'ended', kind: outcome.kind, value: outcome.value }
  }

  *end(outcome: 'success' | 'failure', value: string | null, terminal: boolean): Rule<void> {
    const holder = this.#row.holder!
    const isOver = outcome === 'success' || terminal
    this.#change({
      holder: null,
      attempt: isOver ? 0 : holder.attempt,
      lastOutcome: this.#lastOutcome(outcome, holder, value),
    })
    if (isOver) {
      const count: number = yield [
        'dissolve',
        outcome === 'success' ? 'result' : 'all',
        {
          kind: outcome === 'success' ? 'completed' : 'failed',
          value,
          isNotified: false,
          keptUntil: this.#now + this.#times.keepMs,
          revision: this.#row.revision,
        },
      ]
      if (count > 0) this.#everyone = true
    }
    yield* this.#grantNext()
  }

  *expire(who: Requester): Rule<boolean> {
    const waiter: Waiter | undefined = yield ['waiter', who]
    const gone = waiter && this.#goneBy(waiter)
    if (!waiter || gone === undefined) return false
    yield ['removeWaiter', who]
    yield* this.#conclude(waiter, gone, null)
    return true
  }

  *leave(who: Requester): Rule<boolean | 'holding'> {
    const { holder } = this.#row
    if (holder && isSame(holder, who)) {
      if (holder.takeUpBy === null) return 'holding'
      this.#change({ holder: null, attempt: holder.attempt - 1 })
      yield* this.#grantNext()
      return true
    }
    const waiter: Waiter | undefined = yield ['waiter', who]
    if (!waiter) return false
    yield ['removeWaiter', who]
    this.#change({})
    return true
  }

  *evict(who: Requester): Rule<boolean> {
    const { holder } = this.#row
    if (holder && isSame(holder, who)) {
      yield* this.#conclude(holder, 'evicted', null)
      yield* this.end('failure', evictedByOperator, false)
      return true
    }
    const waiter: Waiter | undefined = yield ['waiter', who]
    if (!waiter) return false
    yield ['removeWaiter', who]
    yield* this.#conclude(waiter, 'evicted', null)
    return true
  }

  *fail(who: Requester, seq: number, value: string): Rule<boolean> {
    const waiter: Waiter | undefined = yield ['waiter', who]
    if (waiter?.seq !== seq) return false
    yield ['removeWaiter', who]
    yield* this.#conclude(waiter, 'failed', value)
    return true
  }

  extend(givenMs: number | undefined, progress: string | null | undefined): number {
    const holder = this.#row.holder!
    const ttlMs = givenMs ?? holder.ttlMs
    const leaseEndsAt = Math.max(holder.leaseEndsAt, this.#now + ttlMs)
    const extended = { ...holder, leaseEndsAt, ttlMs, takeUpBy: null }
    this.#change({ holder: progress === undefined ? extended : { ...extended, progress } })
    return this.#wallOf(leaseEndsAt)
  }

  shorten(toMs: number): void {
    const holder = this.#row.holder!
    const leaseEndsAt = Math.min(holder.leaseEndsAt, this.#now + toMs)
    if (leaseEndsAt < holder.leaseEndsAt) this.#change({ holder: { ...holder, leaseEndsAt } })
  }

  isHeldBy(who: Requester, token: number): boolean {
    const { holder } = this.#row
    return holder !== null && isSame(holder, who) && holder.token === token
  }

  holderName(): Requester | null {
    const { holder } = this.#row
    return holder && { node: holder.node, requestId: holder.requestId }
  }

  grant(): Grant | undefined {
    const { holder } = this.#row
    return holder ? { token: holder.token, attempt: holder.attempt } : undefined
  }

  holderView(): HolderView | null {
    const { holder } = this.#row
    if (!holder) return null
    const { node, requestId, attempt, since, leaseEndsAt, progress } = holder
    return { node, requestId, attempt, since, expiresAt: this.#wallOf(leaseEndsAt), progress }
  }

  /** Writes the changes and answers whom to wake. */
  *close<Answer extends object>(answer: Answer): Rule<Ruled<Answer>> {
    if (!this.#group) {
      yield* this.save()
      return { ...answer, notified: this.notified, revision: this.#row.revision }
    }
    // A waiter that left may have blocked waiters of other operations.
    if (this.#changed) yield* this.#group.settle()
    yield* this.save()
    const elsewhere = yield* this.#group.closeOthers()
    const { notified } = this
    return { ...answer, notified, revision: this.#row.revision, ...(elsewhere.length > 0 && { elsewhere }) }
  }

  *save(): Rule<void> {
    if (this.#changed) yield ['saveQueue', this.#row, this.#dueAt()]
  }

  get notified(): Notified {
    const notified = { requesters: this.#requesters, everyone: this.#everyone, changed: this.#changed }
    return this.#lapsed ? { ...notified, lapsed: true } : notified
  }

  /** When the wait queue next changes by itself: the holder's lease or the lock delay ends. */
  #dueAt(): number | null {
    const { holder, grantFrom } = this.#row
    if (holder) return endOf(holder)
    return grantFrom > this.#now ? grantFrom : null
  }

  #takeUp(holder: Holder): Standing {
    if (holder.takeUpBy !== null) this.#change({ holder: { ...holder, takeUpBy: null } })
    return this.#granted(holder)
  }

  #granted({ token, leaseEndsAt, attempt }: Holder): Standing {
    return { status: 'granted', token, expiresAt: this.#wallOf(leaseEndsAt), attempt }
  }

  *#queued(seq: number): Rule<Standing> {
    const before: number = yield ['countWaiters', seq]
    return { status: 'queued', position: before + 1 }
  }

  *#conclude(
    { node, requestId, seq }: Requester & { readonly seq: number },
    kind: OutcomeKind,
    value: string | null,
    isNotified = false,
  ): Rule<void> {
    this.#change({})
    const keptUntil = this.#now + this.#times.keepMs
    const { revision } = this.#row
    yield ['saveOutcome', { node, requestId, seq, kind, value, isNotified, keptUntil, revision }]
    this.#requesters.push({ node, requestId })
  }

  #lastOutcome(outcome: LastOutcome['outcome'], holder: Holder, value: string | null): LastOutcome {
    return { outcome, node: holder.node, attempt: holder.attempt, at: this.#wall, value }
  }

  #wallOf(leaseInstant: number): number {
    return leaseInstant + this.#aheadMs
  }

  #change(changes: Partial<WaitQueueRow>): void {
    this.#changed = true
    this.#row = { ...this.#row, ...changes, revision: this.#nextRevision() }
  }

  /** The next revision: never used before, even if the row was deleted meanwhile. */
  #nextRevision(): number {
    const last = this.#group ? this.#group.lastRevision : this.#row.revision
    return Math.max(last + 1, this.#wall * 1_000)
  }
}

function endOf({ leaseEndsAt, takeUpBy }: Holder): number {
  return takeUpBy === null ? leaseEndsAt : Math.min(leaseEndsAt, takeUpBy)
}

function isSame(a: Requester, b: Requester): boolean {
  return a.node === b.node && a.requestId === b.requestId
}

const leaseRanOut: string = JSON.stringify({ code: 'lease_lost', message: 'The holder’s lease ran out.' })
const evictedByOperator: string = JSON.stringify({
  code: 'evicted',
  message: 'An operator ended the holder’s turn.',
})

/** Reads a wait queue for one rule. */
export function* openQueue(times: LockTimes): Rule<OpenWaitQueue> {
  const clock: ReturnType<WaitQueueRows['clock']> = yield ['clock']
  const row: WaitQueueRow | undefined = yield ['queue']
  const queue = new OpenWaitQueue(row ?? empty, clock, times)
  const { conflicts } = times
  if (conflicts === undefined) return queue
  const own: string = yield ['operation']
  const group = groupOf(conflicts, own)
  if (group === undefined) return queue
  const queues = new Map([[own, queue]])
  for (const operation of group) {
    if (operation === own) continue
    const other: WaitQueueRow | undefined = yield ['of', operation, ['queue']]
    queues.set(operation, new OpenWaitQueue(other ?? empty, clock, times))
  }
  const together = new WaitQueueGroup(conflicts, own, queues)
  for (const one of queues.values()) one.joinGroup(together)
  return queue
}

const empty: WaitQueueRow = { holder: null, attempt: 0, grantFrom: 0, revision: 0, lastOutcome: null }
