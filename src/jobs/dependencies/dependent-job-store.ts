import { setNewest } from '../../core/newest-entries.ts'
import { decodeMeta } from '../job-facts.ts'
import {
  type ClaimedRecord,
  forwardJobStore,
  type JobStore,
  type StoreTransaction,
  type Verdict,
} from '../job-store.ts'
import { judge } from '../lifecycle.ts'
import { nameOfLease } from '../worker/lease-renewer.ts'
import type { DependencyStore, Fence, LockAsk, TakenFence } from './dependency-store.ts'
import type { JobLocks } from './job-locks.ts'

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
export function createDependentJobStore(parts: DependentJobStoreParts): JobStore {
  const { store, dependencies, locks } = parts
  const { held, limited } = leasedWith(locks)

  /** Finds the live grants, by the clock of the locks. Never rejects: the locks may be in another store, and down. */
  async function findGrants(records: readonly ClaimedRecord[]): Promise<readonly LockedClaim[]> {
    const fences = await dependencies.take(records.map(({ id }) => id)).catch(() => undefined)
    return Promise.all(
      records.map(async (record, at): Promise<LockedClaim> => {
        const known = fences?.[at]
        try {
          const fence = await liveFence(record, known)
          return { record, known, fence, isAnswered: fences !== undefined }
        } catch {
          return { record, known, fence: undefined, isAnswered: false }
        }
      }),
    )
  }

  async function liveFence(
    record: ClaimedRecord,
    known: TakenFence | undefined,
  ): Promise<number | undefined> {
    if (known === undefined || known.fence === null) return undefined
    // A grant is valid for one claim. `isTaken`: this grant belongs to an earlier claim whose worker died, and the next
    // request is not written yet. A grant older than the attempt is stale, too.
    if (known.isTaken || known.askNo < record.attempt) return undefined
    return (await locks.renew(askOf(record, known), known.fence)) ? known.fence : undefined
  }

  /** Hands back jobs that do not hold their lock. This never uses up an attempt. */
  async function handBack(jobs: readonly LockedClaim[]): Promise<void> {
    if (jobs.length === 0) return
    await store.settle(
      jobs.map(({ record, isAnswered }) =>
        judge(record, { kind: 'snoozed', delayMs: isAnswered ? 0 : lockFailureDelayMs }),
      ),
    )
    const unlocked = jobs.map(({ record }) => record.id)
    try {
      for (const job of jobs) if (job.isAnswered) unlocked.push(...(await blockAgain(job)))
    } finally {
      // Only now: a resolver that tends the job earlier would find the old grant still live.
      parts.onUnlocked(unlocked)
    }
  }

  /** Releases the grant or the request, and makes the job request the lock again. Returns the next waiter, if known. */
  async function blockAgain({ record, known }: LockedClaim): Promise<readonly string[]> {
    if (known === undefined) return []
    const { askNo, fence } = known
    const ask = askOf(record, known)
    const next = fence === null ? undefined : await locks.release(ask, fence, 'failure')
    const isBlockedAgain = await dependencies.blockAgain({ jobId: record.id, askNo, fence })
    if (isBlockedAgain && fence === null) await locks.leave(ask)
    return next === undefined ? [] : [next]
  }

  /**
   * A handler may still run after its job was handed back. So the store ends the grant before the job can be claimed
   * again.
   */
  async function releaseHeldGrants(verdicts: readonly Verdict[]): Promise<void> {
    if (held.size === 0) return
    const back = verdicts.filter(({ state }) => state === 'ready' || state === 'scheduled')
    const grants = back.flatMap((verdict) => held.get(nameOfLease(verdict)) ?? [])
    await Promise.all(grants.map(releaseQuietly))
  }

  /** The same for jobs that another process claimed and this one hands back: only the stores know their grants. */
  async function releaseForeignGrants(handedBack: readonly Verdict[]): Promise<void> {
    if (handedBack.length === 0) return
    const fences = await dependencies.fences(handedBack.map(({ jobId }) => jobId)).catch(() => [])
    for (const [at, known] of fences.entries()) {
      if (known === undefined || known.fence === null) continue
      const record = await store.find(handedBack[at]!.jobId).catch(() => undefined)
      // Not ready: the job was claimed again and has a new grant, because this hand-back was a repetition.
      if (record?.state !== 'ready') continue
      await releaseQuietly({ ask: askOf(record, known), fence: known.fence })
      parts.onUnlocked([record.id])
    }
  }

  /** If the locks are down, the grant expires by itself. */
  async function releaseQuietly({ ask, fence }: Grant): Promise<void> {
    const next = await locks.release(ask, fence, 'failure').catch(() => undefined)
    if (next !== undefined) parts.onUnlocked([next])
  }

  function settled(verdicts: readonly Verdict[]): void {
    if (held.size > 0) {
      const unlocked = verdicts
        .filter((verdict) => held.delete(nameOfLease(verdict)))
        .map(({ jobId }) => jobId)
      if (unlocked.length > 0) parts.onUnlocked(unlocked)
    }
    if (limited.size > 0) {
      const leases = verdicts.map(nameOfLease)
      const queues = new Set(leases.flatMap((lease) => limited.get(lease) ?? []))
      for (const lease of leases) limited.delete(lease)
      for (const queue of queues) parts.onSlotFreed(queue)
    }
    parts.onTouched(verdicts.map(({ jobId }) => jobId))
  }

  return {
    ...forwardJobStore(store),

    async add(jobs, tx, wakeUps) {
      const added = await store.add(jobs, tx, wakeUps)
      if (jobs.some(({ dependsOn }) => dependsOn)) parts.onBlocked()
      return added
    },

    async claim(request) {
      const records = await store.claim(request)
      for (const record of records)
        if (record.limited) setNewest(limited, leaseOf(record), record.queue, maxRemembered)
      const locked = records.filter(({ meta }) => meta?.includes('"lock"') && decodeMeta(meta).lock !== null)
      if (locked.length === 0) return records
      const claims = await findGrants(locked)
      const fenced = new Map<string, number>()
      for (const { record, known, fence } of claims) {
        if (known === undefined || fence === undefined) continue
        fenced.set(record.id, fence)
        setNewest(held, leaseOf(record), { ask: askOf(record, known), fence }, maxRemembered)
      }
      // If the hand-back fails, the jobs are reclaimed when their leases end. The other jobs do not wait for that.
      await handBack(claims.filter(({ fence }) => fence === undefined)).catch(() => undefined)
      const isLocked = new Set(locked.map(({ id }) => id))
      return records.flatMap((record) => {
        if (!isLocked.has(record.id)) return [record]
        const fence = fenced.get(record.id)
        return fence === undefined ? [] : [{ ...record, fence }]
      })
    },

    /** Does not renew a job that lost its grant: another worker can claim it when its lease ends. */
    async renew(leases, leaseMs) {
      const locked = held.size === 0 ? [] : leases.filter((lease) => held.has(nameOfLease(lease)))
      if (locked.length === 0) return store.renew(leases, leaseMs)
      const fences = await dependencies.fences(locked.map(({ jobId }) => jobId))
      const lost = new Set(
        locked.filter((lease, at) => fences[at]?.fence !== held.get(nameOfLease(lease))?.fence),
      )
      return store.renew(
        leases.filter((lease) => !lost.has(lease)),
        leaseMs,
      )
    },

    async settle(verdicts) {
      const isForeign = verdicts.map(
        (verdict) => verdict.state === 'ready' && !held.has(nameOfLease(verdict)),
      )
      await releaseHeldGrants(verdicts)
      const written = await store.settle(verdicts)
      await releaseForeignGrants(verdicts.filter((_, at) => isForeign[at] && written[at]))
      settled(verdicts)
      return written
    },

    async transact(work, options) {
      const verdicts: Verdict[] = []
      await store.transact(recording(work, verdicts), options)
      settled(verdicts)
    },

    async transactAll(works, options) {
      const verdicts: Verdict[] = []
      const outcomes = await store.transactAll(
        works.map((work) => recording(work, verdicts)),
        options,
      )
      settled(verdicts)
      return outcomes
    },

    async cancel(id) {
      const answer = await store.cancel(id)
      if (answer !== undefined) parts.onTouched([id])
      return answer
    },

    async remove(ids) {
      const removed = await store.remove(ids)
      parts.onTouched(removed)
      return removed
    },
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

/** Jobs in flight here, by lease: their grants, and their queues if these have limits. */
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

function leaseOf({ id: jobId, token }: ClaimedRecord): string {
  return nameOfLease({ jobId, token })
}

/** The same work; its verdict is added to the list. */
function recording(
  work: (tx: StoreTransaction) => Promise<Verdict>,
  verdicts: Verdict[],
): (tx: StoreTransaction) => Promise<Verdict> {
  return async (tx) => {
    const verdict = await work(tx)
    verdicts.push(verdict)
    return verdict
  }
}
