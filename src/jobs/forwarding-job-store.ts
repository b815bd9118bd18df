import type {
  ClaimedRecord,
  ClaimRequest,
  EndedQuery,
  JobStore,
  LeaseRef,
  ListQuery,
  NewJob,
  ReachQuery,
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

  add(jobs: readonly NewJob[], tx?: unknown, wakeUps?: readonly string[]): ReturnType<JobStore['add']> {
    return this.inner.add(jobs, tx, wakeUps)
  }

  claim(request: ClaimRequest): ReturnType<JobStore['claim']> {
    return this.inner.claim(request)
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): ReturnType<JobStore['renew']> {
    return this.inner.renew(leases, leaseMs)
  }

  settle(verdicts: readonly Verdict[]): ReturnType<JobStore['settle']> {
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

  transactAll(...args: Parameters<JobStore['transactAll']>): ReturnType<JobStore['transactAll']> {
    return this.inner.transactAll(...args)
  }

  outcomes(leases: readonly LeaseRef[]): ReturnType<JobStore['outcomes']> {
    return this.inner.outcomes(leases)
  }

  cancelRequests(leases: readonly LeaseRef[]): ReturnType<JobStore['cancelRequests']> {
    return this.inner.cancelRequests(leases)
  }

  reclaim(limit: number): ReturnType<JobStore['reclaim']> {
    return this.inner.reclaim(limit)
  }

  find(id: string): ReturnType<JobStore['find']> {
    return this.inner.find(id)
  }

  list(query: ListQuery): ReturnType<JobStore['list']> {
    return this.inner.list(query)
  }

  reach(query: ReachQuery): ReturnType<JobStore['reach']> {
    return this.inner.reach(query)
  }

  ends(query: EndedQuery): ReturnType<JobStore['ends']> {
    return this.inner.ends(query)
  }

  cancel(id: string): ReturnType<JobStore['cancel']> {
    return this.inner.cancel(id)
  }

  retry(id: string): ReturnType<JobStore['retry']> {
    return this.inner.retry(id)
  }

  retryDead(query: Parameters<JobStore['retryDead']>[0]): Promise<number> {
    return this.inner.retryDead(query)
  }

  stats(): ReturnType<JobStore['stats']> {
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
