import type {
  Added,
  AttemptOutcome,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  EndedQuery,
  JobEnd,
  JobRecord,
  JobStore,
  LeaseRef,
  ListQuery,
  NewJob,
  QueueStats,
  ReachQuery,
  Renewal,
  RetryAnswer,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from './job-store.ts'
import type { QueueLimits } from './queue-limits.ts'

/** Forwards every call to another store. A store that changes some of the calls extends this and overrides those. */
export class ForwardingJobStore implements JobStore {
  protected readonly inner: JobStore
  readonly addClaimed?: NonNullable<JobStore['addClaimed']>

  constructor(inner: JobStore) {
    this.inner = inner
    if (inner.addClaimed !== undefined)
      this.addClaimed = (job, request) => this.addClaimedTo(inner.addClaimed!.bind(inner), job, request)
  }

  /** Called only where the inner store has `addClaimed`. */
  protected addClaimedTo(
    addClaimed: NonNullable<JobStore['addClaimed']>,
    job: NewJob,
    request: ClaimRequest,
  ): Promise<ClaimedRecord | undefined> {
    return addClaimed(job, request)
  }

  add(jobs: readonly NewJob[], tx?: unknown, wakeUps?: readonly string[]): Promise<readonly Added[]> {
    return this.inner.add(jobs, tx, wakeUps)
  }

  claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    return this.inner.claim(request)
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    return this.inner.renew(leases, leaseMs)
  }

  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return this.inner.settle(verdicts)
  }

  settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    return this.inner.settleIn(tx, verdict)
  }

  endTransaction(tx: unknown, error: unknown): Promise<void> {
    return this.inner.endTransaction(tx, error)
  }

  transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    return this.inner.transact(work, options)
  }

  transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    return this.inner.transactAll(works, options)
  }

  outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    return this.inner.outcomes(leases)
  }

  cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]> {
    return this.inner.cancelRequests(leases)
  }

  reclaim(limit: number): ReturnType<JobStore['reclaim']> {
    return this.inner.reclaim(limit)
  }

  find(id: string): Promise<JobRecord | undefined> {
    return this.inner.find(id)
  }

  list(query: ListQuery): Promise<readonly JobRecord[]> {
    return this.inner.list(query)
  }

  reach(query: ReachQuery): Promise<string | null> {
    return this.inner.reach(query)
  }

  ends(query: EndedQuery): Promise<readonly JobEnd[]> {
    return this.inner.ends(query)
  }

  cancel(id: string): Promise<CancelAnswer | undefined> {
    return this.inner.cancel(id)
  }

  retry(id: string): Promise<RetryAnswer | undefined> {
    return this.inner.retry(id)
  }

  retryDead(query: Parameters<JobStore['retryDead']>[0]): Promise<number> {
    return this.inner.retryDead(query)
  }

  stats(): Promise<readonly QueueStats[]> {
    return this.inner.stats()
  }

  pause(queue: string): Promise<void> {
    return this.inner.pause(queue)
  }

  resume(queue: string): Promise<void> {
    return this.inner.resume(queue)
  }

  setLimits(queue: string, limits: QueueLimits | null): Promise<void> {
    return this.inner.setLimits(queue, limits)
  }

  remove(ids: readonly string[]): Promise<readonly string[]> {
    return this.inner.remove(ids)
  }

  prune(request: Parameters<JobStore['prune']>[0]): Promise<number> {
    return this.inner.prune(request)
  }
}
