import type {
  Added,
  AttemptOutcome,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  EndedQuery,
  FinalState,
  JobEnd,
  JobRecord,
  JobStore,
  LeaseRef,
  ListQuery,
  NewDependencies,
  NewJob,
  QueueLimits,
  QueueStats,
  ReachQuery,
  Renewal,
  RetryAnswer,
  StoreTransaction,
  TransactOptions,
  UncountedAttempt,
  Verdict,
} from '../../jobs/index.ts'
import { leavesAttempt, lostError } from '../attempt-error.ts'
import { createNonce, encodeToken, expiredError } from '../token.ts'
import { leaseLost } from '../transaction-errors.ts'
import type { DependentJobs } from './dependencies.ts'
import { createRow, judge, type Row, stateAfterExpiry, toRecord } from './job-row.ts'
import { MemoryLimits } from './limits.ts'
import { goesBefore, LiveJobs } from './ready-order.ts'
import { runWorks, unsupported } from './transaction.ts'

/** The stores of data that belong to a job: dependencies, attempts, logs, progress. */
export interface JobSurroundings {
  /** Stores the dependencies and the lock of a new job. */
  keepDependencies(id: string, dependsOn: NewDependencies): void
  /** Stores a failed or lost attempt, with the release of its worker. */
  keepAttempt(attempt: Omit<UncountedAttempt, 'release'>): void
  /** A job is retried: deletes logs that would leave little of the limit for its next attempts. */
  deleteFullLogs(id: string): void
  /** Deletes all data of removed jobs. */
  forget(ids: readonly string[]): void
  /** Deletes the attempts of pruned jobs. */
  forgetAttempts(ids: readonly string[]): void
}

/** Jobs in memory. One map has all rows; `LiveJobs` has the live ones as well. */
export class MemoryJobs implements JobStore, DependentJobs {
  readonly #now: () => number
  readonly #surroundings: JobSurroundings
  readonly #rows = new Map<string, Row>()
  readonly #live = new LiveJobs()
  readonly #paused = new Set<string>()
  readonly #limits = new MemoryLimits()
  /** All ids, newest first; undefined: rows were added or removed since the last use. */
  #ids: string[] | undefined

  constructor(now: () => number, surroundings: JobSurroundings) {
    this.#now = now
    this.#surroundings = surroundings
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    if (tx !== undefined) throw unsupported()
    return this.insert(jobs)
  }

  /** Adds jobs synchronously, so that a caller can do more in the same step. */
  insert(jobs: readonly NewJob[]): readonly Added[] {
    const now = this.#now()
    const added = jobs.map((job) => {
      const holder = this.#holderOf(job, now)
      if (holder) return { id: holder.id, duplicate: true }
      const row = createRow(job, now)
      this.#rows.set(row.id, row)
      this.#ids = undefined
      if (job.dependsOn) this.#live.hold(row)
      else this.#live.enqueue(row)
      return { id: row.id, duplicate: false }
    })
    if (jobs.some(({ dependsOn }) => dependsOn)) this.#keepDependencies(jobs, added)
    return added
  }

  #keepDependencies(jobs: readonly NewJob[], added: readonly Added[]): void {
    const became = new Map(jobs.map((job, at) => [job.id, added[at]!.id]))
    for (const [at, { id, dependsOn }] of jobs.entries()) {
      if (!dependsOn || added[at]!.duplicate) continue
      const others = dependsOn.jobs.map((dependencyId) => became.get(dependencyId) ?? dependencyId)
      this.#surroundings.keepDependencies(id, { ...dependsOn, jobs: others })
    }
  }

  async claim({ queues, kinds, workerId, limit, leaseMs }: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const now = this.#now()
    for (const row of this.#live.expired(now)) this.#reclaim(row, now)
    const open = [...new Set(queues)].filter((queue) => !this.#paused.has(queue))
    const { running } = this.#live
    const plans = new Map(open.map((queue) => [queue, this.#limits.plan(queue, running, now)]))
    const lists = open.flatMap((queue) =>
      this.#live.listsOf(queue, kinds).map((list) => ({ list, plan: plans.get(queue) })),
    )
    const claimed: ClaimedRecord[] = []
    const skipped: Row[] = []
    while (claimed.length < limit) {
      let row: Row | undefined
      for (const { list, plan } of lists) {
        const first = plan?.capacity === 0 ? undefined : list.first(now)
        if (first && (!row || goesBefore(first, row))) row = first
      }
      if (!row) break
      const plan = plans.get(row.queue)
      if (plan && plan.take([row], 1).length === 0) {
        row.list!.remove(row)
        skipped.push(row)
        continue
      }
      const record = this.#claim(row, workerId, now, leaseMs)
      claimed.push(plan ? { ...record, limited: true } : record)
    }
    for (const row of skipped) this.#live.enqueue(row)
    for (const [queue, plan] of plans) if (plan) this.#limits.keep(queue, plan)
    return claimed
  }

  async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const now = this.#now()
    return leases.flatMap((lease) => {
      const row = this.#held(lease, now)
      if (!row) return []
      row.leaseEndsAt = Math.max(row.leaseEndsAt, now + leaseMs)
      const { leaseEndsAt, cancelRequested } = row
      return [{ jobId: lease.jobId, token: lease.token, leaseEndsAt, cancelRequested }]
    })
  }

  async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    const now = this.#now()
    return verdicts.map((verdict) => this.#settle(verdict, now))
  }

  async settleIn(): Promise<boolean> {
    throw unsupported()
  }

  /** Does nothing: memory takes part in no transaction. */
  async endTransaction(): Promise<void> {}

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    const [failed] = await this.transactAll([work], options)
    if (failed) throw failed.error
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    const outcomes = await runWorks(works, options)
    const now = this.#now()
    return outcomes.map((outcome) => {
      if ('error' in outcome) return outcome
      return this.#settle(outcome.verdict, now) ? undefined : { error: leaseLost(outcome.verdict.jobId) }
    })
  }

  async outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    const now = this.#now()
    return leases.map((lease) => {
      if (this.#rows.get(lease.jobId)?.settled.includes(lease.token)) return 'settled'
      return this.#held(lease, now) ? 'held' : 'lost'
    })
  }

  async cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]> {
    const now = this.#now()
    return leases.filter((lease) => this.#held(lease, now)?.cancelRequested).map(({ jobId }) => jobId)
  }

  async reclaim(limit: number): Promise<{ ready: number; dead: number; cancelled: number }> {
    const now = this.#now()
    const counts = { ready: 0, dead: 0, cancelled: 0 }
    for (const row of this.#live.expired(now).slice(0, limit)) counts[this.#reclaim(row, now)]++
    return counts
  }

  async find(id: string): Promise<JobRecord | undefined> {
    const row = this.#rows.get(id)
    return row && toRecord(row, this.#now())
  }

  async reach({ before, rows }: ReachQuery): Promise<string | null> {
    this.#ids ??= [...this.#rows.keys()].sort().reverse()
    const from = before === undefined ? 0 : this.#ids.findIndex((id) => id < before)
    // Counts jobs of all kinds, so the answer may be nearer than necessary.
    return from < 0 || this.#ids.length - from <= rows ? null : this.#ids[from + rows - 1]!
  }

  async ends({ queue, from, after = '', limit }: EndedQuery): Promise<readonly JobEnd[]> {
    const isWanted = (row: Row) =>
      row.queue === queue &&
      row.finishedAt !== null &&
      row.finishedAt >= from &&
      (row.finishedAt > from || row.id > after)
    const now = this.#now()
    return [...this.#rows.values()]
      .filter(isWanted)
      .map((row) => toRecord(row, now) as JobEnd)
      .sort((a, b) => a.finishedAt - b.finishedAt || (a.id < b.id ? -1 : 1))
      .slice(0, limit)
      .map(({ id, kind, state, attempt, createdAt, startedAt, finishedAt }) => ({
        ...{ id, kind, state, attempt, createdAt, startedAt, finishedAt },
      }))
  }

  async list({ queue, kind, state, limit, before, downTo }: ListQuery): Promise<readonly JobRecord[]> {
    const now = this.#now()
    const page: JobRecord[] = []
    this.#ids ??= [...this.#rows.keys()].sort().reverse()
    for (const id of this.#ids) {
      if (page.length >= limit) break
      const row = this.#rows.get(id)!
      if (before !== undefined && id >= before) continue
      if (downTo !== undefined && id < downTo) break
      if (queue !== undefined && row.queue !== queue) continue
      if (kind !== undefined && row.kind !== kind) continue
      if (state !== undefined && judge(row, now) !== state) continue
      page.push(toRecord(row, now))
    }
    return page
  }

  async cancel(id: string): Promise<CancelAnswer | undefined> {
    const now = this.#now()
    const row = this.#currentRow(id, now)
    if (!row) return undefined
    if (row.stored === 'running') row.cancelRequested = true
    if (isWaiting(row)) this.#end(row, 'cancelled', now)
    return { state: judge(row, now), cancelRequested: row.cancelRequested }
  }

  async retry(id: string): Promise<RetryAnswer | undefined> {
    const now = this.#now()
    const row = this.#currentRow(id, now)
    return row && { outcome: this.#retry(row, now) }
  }

  async retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    const now = this.#now()
    const dead = [...this.#rows.values()]
      .filter((row) => judge(row, now) === 'dead')
      .filter((row) => query.queue === undefined || row.queue === query.queue)
      .filter((row) => query.kind === undefined || row.kind === query.kind)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
    let retried = 0
    for (const row of dead) {
      if (retried === query.limit) break
      this.#currentRow(row.id, now)
      if (this.#retry(row, now) === 'ready') retried++
    }
    return retried
  }

  async stats(): Promise<readonly QueueStats[]> {
    const now = this.#now()
    const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 }
    const queues = new Map<string, { -readonly [Key in keyof QueueStats]: QueueStats[Key] }>()
    const of = (queue: string) => {
      const paused = this.#paused.has(queue)
      const limits = this.#limits.of(queue)
      const known = queues.get(queue) ?? {
        queue,
        paused,
        limits,
        ...none,
        approximate: false,
        oldestReadyAt: null,
      }
      queues.set(queue, known)
      return known
    }
    for (const queue of [...this.#paused, ...this.#limits.queues]) of(queue)
    for (const row of this.#rows.values()) {
      const state = judge(row, now)
      if (state === 'completed' || state === 'cancelled') continue
      const counts = of(row.queue)
      counts[state]++
      if (state === 'ready') counts.oldestReadyAt = Math.min(counts.oldestReadyAt ?? row.runAt, row.runAt)
    }
    return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1))
  }

  async pause(queue: string): Promise<void> {
    this.#paused.add(queue)
  }

  async resume(queue: string): Promise<void> {
    this.#paused.delete(queue)
  }

  async setLimits(queue: string, limits: QueueLimits | null): Promise<void> {
    this.#limits.set(queue, limits)
  }

  async remove(ids: readonly string[]): Promise<readonly string[]> {
    const now = this.#now()
    const removed = [...new Set(ids)].filter((id) => {
      const row = this.#currentRow(id, now)
      if (!row || row.stored === 'running') return false
      if (isWaiting(row)) this.#end(row, 'cancelled', now)
      return this.#rows.delete(id)
    })
    this.#ids = undefined
    this.#surroundings.forget(removed)
    return removed
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const before = this.#now() - olderThanMs
    const old = [...this.#rows.values()]
      .filter(({ finishedAt }) => finishedAt !== null && finishedAt < before)
      .sort((a, b) => a.finishedAt! - b.finishedAt!)
      .slice(0, limit)
    for (const row of old) this.#rows.delete(row.id)
    this.#ids = undefined
    this.#surroundings.forgetAttempts(old.map(({ id }) => id))
    return old.length
  }

  look(id: string): ReturnType<DependentJobs['look']> {
    const now = this.#now()
    const row = this.#rows.get(id)
    return (
      row && {
        ...{ queue: row.queue, state: judge(row, now), waitsSince: row.waitsSince },
        dueInMs: Math.max(0, row.runAt - now),
      }
    )
  }

  unblock(id: string): 'ready' | 'scheduled' | undefined {
    const row = this.#rows.get(id)
    if (row?.stored !== 'waiting') return undefined
    const now = this.#now()
    this.#live.enqueue(row)
    return row.runAt <= now ? 'ready' : 'scheduled'
  }

  block(id: string): void {
    const now = this.#now()
    const row = this.#currentRow(id, now)
    if (row?.stored !== 'queued') return
    row.waitsSince = now
    this.#live.hold(row)
  }

  cancelBlocked(id: string, error: string): boolean {
    const row = this.#rows.get(id)
    if (row?.stored !== 'waiting') return false
    row.error = error
    this.#end(row, 'cancelled', this.#now())
    return true
  }

  /** The row that this lease holds; undefined: the lease is lost. */
  #held({ jobId, token }: LeaseRef, now: number): Row | undefined {
    const row = this.#rows.get(jobId)
    return row?.token === token && row.leaseEndsAt > now ? row : undefined
  }

  #settle(verdict: Verdict, now: number): boolean {
    const row = this.#held(verdict, now)
    if (!row) return false
    row.settled = [...row.settled, verdict.token]
    row.attempt = verdict.attempt
    row.handBackCount = verdict.handBackCount
    row.snoozeCount = verdict.snoozeCount
    row.result = verdict.result
    row.error = verdict.error
    if (verdict.ranMs !== null) row.startedAt = now - verdict.ranMs
    if (leavesAttempt(verdict)) {
      const outcome = verdict.state === 'dead' ? 'dead' : 'failed'
      this.#keepAttempt(row, { outcome, endedAt: now, error: verdict.error!, isUnseenEnd: false })
    }
    if (verdict.state === 'completed') row.cancelIgnored = row.cancelRequested
    if (verdict.state !== 'ready' && verdict.state !== 'scheduled') this.#end(row, verdict.state, now)
    else if (row.cancelRequested) this.#end(row, 'cancelled', now)
    else {
      if (verdict.state === 'scheduled') row.runAt = now + verdict.delayMs
      this.#live.enqueue(row)
    }
    return true
  }

  #retry(row: Row, now: number): RetryAnswer['outcome'] {
    if (row.stored === 'running') return 'running'
    const holder = this.#holderOf(row, now)
    if (holder && holder !== row) return 'taken'
    row.attempt = 0
    row.handBackCount = 0
    row.snoozeCount = 0
    row.runAt = now
    row.finishedAt = null
    row.startedAt = null
    row.workerId = null
    row.result = null
    row.cancelIgnored = false
    this.#surroundings.deleteFullLogs(row.id)
    this.#live.enqueue(row)
    return 'ready'
  }

  /** Whether a live job of this queue has a unique key. */
  hasKeyIn(queue: string): boolean {
    return this.#live.hasKeyIn(queue)
  }

  /** The live job that has the unique key of this job. */
  #holderOf({ queue, uniqueKey }: { queue: string; uniqueKey: string | null }, now: number): Row | undefined {
    if (uniqueKey === null) return undefined
    const holder = this.#live.withKey(queue, uniqueKey)
    return holder && this.#currentRow(holder.id, now)?.finishedAt === null ? holder : undefined
  }

  /** The row, after reclaiming it if its lease expired. */
  #currentRow(id: string, now: number): Row | undefined {
    const row = this.#rows.get(id)
    if (row?.stored === 'running' && row.leaseEndsAt <= now) this.#reclaim(row, now)
    return row
  }

  #reclaim(row: Row, now: number): 'ready' | 'dead' | 'cancelled' {
    const state = stateAfterExpiry(row)
    const isUnseenEnd = state === 'dead'
    this.#keepAttempt(row, { outcome: 'lost', endedAt: row.leaseEndsAt, error: lostError, isUnseenEnd })
    if (state === 'dead') row.error = expiredError
    if (state === 'ready') this.#live.enqueue(row)
    else this.#end(row, state, now)
    return state
  }

  #keepAttempt(row: Row, end: Pick<UncountedAttempt, 'outcome' | 'endedAt' | 'error' | 'isUnseenEnd'>): void {
    const { id: jobId, leaseNo: number, attempt, queue, kind, workerId, startedAt } = row
    this.#surroundings.keepAttempt({
      ...{ jobId, number, attempt, queue, kind, workerId, startedAt },
      ...end,
    })
  }

  #claim(row: Row, workerId: string, now: number, leaseMs: number): ClaimedRecord {
    row.attempt++
    row.leaseNo++
    const token = encodeToken({ leaseNo: String(row.leaseNo), nonce: createNonce() })
    const leaseEndsAt = now + leaseMs
    this.#live.start(row, token, leaseEndsAt)
    row.startedAt = now
    row.workerId = workerId
    return { ...toRecord(row, now), token, leaseEndsAt }
  }

  #end(row: Row, state: FinalState, now: number): void {
    this.#live.end(row, state)
    row.finishedAt = now
  }
}

/** Whether the job is live and does not run. */
function isWaiting({ stored }: Row): boolean {
  return stored === 'queued' || stored === 'waiting'
}
