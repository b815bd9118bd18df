import { ForwardingJobStore } from '../forwarding-job-store.ts'
import { decodeMeta } from '../job-facts.ts'
import type {
  Added,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  JobStore,
  LeaseRef,
  NewJob,
  Renewal,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from '../job-store.ts'
import { judge } from '../lifecycle.ts'
import type { DependencyStore, Fence, TakenFence } from './dependency-store.ts'
import type { JobLocks, LockAsk } from './job-locks.ts'

export interface DependentJobStoreParts {
  readonly store: JobStore
  readonly dependencies: DependencyStore
  readonly locks: JobLocks
  /** A blocked job was added. */
  onBlocked(): void
  /** These jobs ended in this process, or can be claimed again. */
  onTouched(jobIds: readonly string[]): void
  /** These jobs no longer use their lock, or are next for one. */
  onUnlocked(jobIds: readonly string[]): void
  /** A job freed its slot in this queue, which has limits. */
  onSlotFreed(queue: string): void
}

/**
 * A job store that hands out a job with a lock only while its grant is live: a claimed job without one is blocked
 * again. While such a job runs, its lease is renewed only as long as it holds the grant. So a lost lock is a lost
 * lease, and the handler's signal aborts. The store also reports every end, for the dependents. Jobs without a lock
 * pass unchanged.
 */
export class DependentJobStore extends ForwardingJobStore {
  readonly #parts: DependentJobStoreParts
  readonly #held: Map<string, Grant>
  readonly #limited: Map<string, string>

  constructor(parts: DependentJobStoreParts) {
    super(parts.store)
    this.#parts = parts
    const { held, limited } = leasedWith(parts.locks)
    this.#held = held
    this.#limited = limited
  }

  override async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const records = await this.inner.claim(request)
    for (const record of records) if (record.limited) remember(this.#limited, record.token, record.queue)
    const locked = records.filter(({ meta }) => meta?.includes('"lock"') && decodeMeta(meta).lock !== null)
    if (locked.length === 0) return records
    const claims = await this.#findGrants(locked)
    const fenced = new Map<string, number>()
    for (const { record, known, fence } of claims) {
      if (known === undefined || fence === undefined) continue
      fenced.set(record.id, fence)
      remember(this.#held, record.token, { ask: askOf(record, known), fence })
    }
    // If the hand-back fails, the jobs are reclaimed when their leases end. The other jobs do not wait for that.
    await this.#handBack(claims.filter(({ fence }) => fence === undefined)).catch(() => undefined)
    const isLocked = new Set(locked.map(({ id }) => id))
    return records.flatMap((record) => {
      if (!isLocked.has(record.id)) return [record]
      const fence = fenced.get(record.id)
      return fence === undefined ? [] : [{ ...record, fence }]
    })
  }

  /** Finds the live grants, by the clock of the locks. Never rejects: the locks may be in another store, and down. */
  async #findGrants(records: readonly ClaimedRecord[]): Promise<readonly LockedClaim[]> {
    const fences = await this.#parts.dependencies.take(records.map(({ id }) => id)).catch(() => undefined)
    return Promise.all(
      records.map(async (record, at): Promise<LockedClaim> => {
        const known = fences?.[at]
        try {
          return {
            record,
            known,
            fence: await this.#liveFence(record, known),
            isAnswered: fences !== undefined,
          }
        } catch {
          return { record, known, fence: undefined, isAnswered: false }
        }
      }),
    )
  }

  async #liveFence(record: ClaimedRecord, known: TakenFence | undefined): Promise<number | undefined> {
    if (known === undefined || known.fence === null) return undefined
    // A grant is valid for one claim. `isTaken`: this grant belongs to an earlier claim whose worker died, and the next
    // request is not written yet. A grant older than the attempt is stale, too.
    if (known.isTaken || known.askNo < record.attempt) return undefined
    return (await this.#parts.locks.renew(askOf(record, known), known.fence)) ? known.fence : undefined
  }

  /** Hands back jobs that do not hold their lock. This never uses up an attempt. */
  async #handBack(jobs: readonly LockedClaim[]): Promise<void> {
    if (jobs.length === 0) return
    await this.inner.settle(
      jobs.map(({ record, isAnswered }) =>
        judge(record, { kind: 'snoozed', delayMs: isAnswered ? 0 : lockFailureDelayMs }),
      ),
    )
    const unlocked = jobs.map(({ record }) => record.id)
    try {
      for (const job of jobs) if (job.isAnswered) unlocked.push(...(await this.#blockAgain(job)))
    } finally {
      // Only now: a resolver that tends the job earlier would find the old grant still live.
      this.#parts.onUnlocked(unlocked)
    }
  }

  /** Releases the grant or the request, and makes the job request the lock again. Returns the next waiter, if known. */
  async #blockAgain({ record, known }: LockedClaim): Promise<readonly string[]> {
    if (known === undefined) return []
    const ask = askOf(record, known)
    const next =
      known.fence === null ? undefined : await this.#parts.locks.release(ask, known.fence, 'failure')
    const isBlockedAgain = await this.#parts.dependencies.blockAgain({
      jobId: record.id,
      askNo: known.askNo,
      fence: known.fence,
    })
    if (isBlockedAgain && known.fence === null) await this.#parts.locks.leave(ask)
    return next === undefined ? [] : [next]
  }

  /** Does not renew a job that lost its grant: another worker can claim it when its lease ends. */
  override async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const locked = this.#held.size === 0 ? [] : leases.filter(({ token }) => this.#held.has(token))
    if (locked.length === 0) return this.inner.renew(leases, leaseMs)
    const fences = await this.#parts.dependencies.fences(locked.map(({ jobId }) => jobId))
    const lost = new Set(
      locked
        .filter(({ token }, at) => fences[at]?.fence !== this.#held.get(token)?.fence)
        .map(({ token }) => token),
    )
    return this.inner.renew(
      leases.filter(({ token }) => !lost.has(token)),
      leaseMs,
    )
  }

  /**
   * A handler may still run after its job was handed back. So the store ends the grant before the job can be claimed
   * again.
   */
  async #releaseHeldGrants(verdicts: readonly Verdict[]): Promise<void> {
    if (this.#held.size === 0) return
    const back = verdicts.filter(({ state }) => state === 'ready' || state === 'scheduled')
    const grants = back.flatMap(({ token }) => this.#held.get(token) ?? [])
    await Promise.all(grants.map((grant) => this.#releaseQuietly(grant)))
  }

  /** The same for jobs that another process claimed and this one hands back: only the stores know their grants. */
  async #releaseForeignGrants(handedBack: readonly Verdict[]): Promise<void> {
    if (handedBack.length === 0) return
    const fences = await this.#parts.dependencies.fences(handedBack.map(({ jobId }) => jobId)).catch(() => [])
    for (const [at, known] of fences.entries()) {
      if (known === undefined || known.fence === null) continue
      const record = await this.inner.find(handedBack[at]!.jobId).catch(() => undefined)
      // Not ready: the job was claimed again and has a new grant, because this hand-back was a repetition.
      if (record?.state !== 'ready') continue
      await this.#releaseQuietly({ ask: askOf(record, known), fence: known.fence })
      this.#parts.onUnlocked([record.id])
    }
  }

  /** If the locks are down, the grant expires by itself. */
  async #releaseQuietly({ ask, fence }: Grant): Promise<void> {
    const next = await this.#parts.locks.release(ask, fence, 'failure').catch(() => undefined)
    if (next !== undefined) this.#parts.onUnlocked([next])
  }

  #settled(verdicts: readonly Verdict[]): void {
    if (this.#held.size > 0) {
      const unlocked = verdicts.filter(({ token }) => this.#held.delete(token)).map(({ jobId }) => jobId)
      if (unlocked.length > 0) this.#parts.onUnlocked(unlocked)
    }
    if (this.#limited.size > 0) {
      const queues = new Set(verdicts.flatMap(({ token }) => this.#limited.get(token) ?? []))
      for (const { token } of verdicts) this.#limited.delete(token)
      for (const queue of queues) this.#parts.onSlotFreed(queue)
    }
    this.#parts.onTouched(verdicts.map(({ jobId }) => jobId))
  }

  override async add(
    jobs: readonly NewJob[],
    tx?: unknown,
    wakeUps?: readonly string[],
  ): Promise<readonly Added[]> {
    const added = await this.inner.add(jobs, tx, wakeUps)
    if (jobs.some(({ dependsOn }) => dependsOn)) this.#parts.onBlocked()
    return added
  }

  override async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    const isForeign = verdicts.map(({ state, token }) => state === 'ready' && !this.#held.has(token))
    await this.#releaseHeldGrants(verdicts)
    const written = await this.inner.settle(verdicts)
    await this.#releaseForeignGrants(verdicts.filter((_, at) => isForeign[at] && written[at]))
    this.#settled(verdicts)
    return written
  }

  override async transact(
    work: (tx: StoreTransaction) => Promise<Verdict>,
    options: TransactOptions,
  ): Promise<void> {
    const verdicts: Verdict[] = []
    await this.inner.transact(async (tx) => recordVerdict(verdicts, await work(tx)), options)
    this.#settled(verdicts)
  }

  override async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    const verdicts: Verdict[] = []
    const outcomes = await this.inner.transactAll(
      works.map((work) => async (tx) => recordVerdict(verdicts, await work(tx))),
      options,
    )
    this.#settled(verdicts)
    return outcomes
  }

  override async cancel(id: string): Promise<CancelAnswer | undefined> {
    const answer = await this.inner.cancel(id)
    if (answer !== undefined) this.#parts.onTouched([id])
    return answer
  }

  override async remove(ids: readonly string[]): Promise<readonly string[]> {
    const removed = await this.inner.remove(ids)
    this.#parts.onTouched(removed)
    return removed
  }
}

/** A claimed job with a lock. */
interface LockedClaim {
  readonly record: ClaimedRecord
  /** Its lock dependency; undefined: the job has none, or the store did not answer. */
  readonly known: TakenFence | undefined
  /** The fence of its live grant; undefined: no grant, or the locks did not answer. */
  readonly fence: number | undefined
  /** Whether both stores answered. */
  readonly isAnswered: boolean
}

/** Jobs in flight here, by token: their grants, and their queues if these have limits. */
interface Leased {
  readonly held: Map<string, Grant>
  readonly limited: Map<string, string>
}

/** A server creates a store for each session; a job claimed through one may end through another. */
const leasedByLocks = new WeakMap<JobLocks, Leased>()

function leasedWith(locks: JobLocks): Leased {
  const leased = leasedByLocks.get(locks) ?? { held: new Map(), limited: new Map() }
  leasedByLocks.set(locks, leased)
  return leased
}

/** The grant of a job in flight. */
interface Grant {
  readonly ask: LockAsk
  readonly fence: number
}

/** The delay of a job whose locks do not answer. */
const lockFailureDelayMs = 5_000

function askOf({ id, meta }: Pick<ClaimedRecord, 'id' | 'meta'>, { askNo }: Fence): LockAsk {
  return { ...decodeMeta(meta).lock!, jobId: id, askNo }
}

/** The most jobs in flight whose grants the store remembers. For older jobs, only their leases count. */
const maxRemembered = 100_000

function remember<Value>(known: Map<string, Value>, token: string, value: Value): void {
  known.set(token, value)
  if (known.size > maxRemembered) known.delete(known.keys().next().value!)
}

function recordVerdict(verdicts: Verdict[], verdict: Verdict): Verdict {
  verdicts.push(verdict)
  return verdict
}
