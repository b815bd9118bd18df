import { ForwardingJobStore } from '../forwarding-job-store.ts'
import { decodeLock } from '../job-meta.ts'
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
import { backoffDefaults, judge } from '../lifecycle.ts'
import type { Fence, GateStore, TakenFence } from './dependency-store.ts'
import type { JobLocks, LockAsk } from './job-locks.ts'

/** What the store below is made of. */
export interface DependentJobStoreParts {
  readonly store: JobStore
  readonly gates: GateStore
  readonly locks: JobLocks
  /** A job that waits was added. */
  onGated(): void
  /** These jobs ended here, or go back in line. */
  onTouched(jobIds: readonly string[]): void
  /** These jobs have a lock and are done with their turn, or are next in its line. */
  onUnlocked(jobIds: readonly string[]): void
  /** In this queue, which has limits, one runs less. */
  onRoom(queue: string): void
}

/**
 * A store whose jobs with a lock are handed out only with a live grant in hand: what a claim brings is looked at, and what
 * has none goes back to its line. While such a job runs, its lease is renewed only as long as the grant is its own; so
 * losing the lock is losing the lease, and its handler's signal aborts. It also tells of every end, for those who wait.
 *
 * Jobs without a lock pass as they are.
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
    const locked = records.filter(({ meta }) => meta?.includes('"lock"') && decodeLock(meta) !== null)
    if (locked.length === 0) return records
    const looked = await this.#lookAt(locked)
    const fenced = new Map<string, number>()
    for (const { record, known, fence } of looked) {
      if (known === undefined || fence === undefined) continue
      fenced.set(record.id, fence)
      remember(this.#held, record.token, { ask: askOf(record, known), fence })
    }
    // What cannot go back now is taken back when its lease ends; the others need not wait for it.
    await this.#sendBack(looked.filter(({ fence }) => fence === undefined)).catch(() => undefined)
    const isLocked = new Set(locked.map(({ id }) => id))
    return records.flatMap((record) => {
      if (!isLocked.has(record.id)) return [record]
      const fence = fenced.get(record.id)
      return fence === undefined ? [] : [{ ...record, fence }]
    })
  }

  /** Which of them have a grant that is alive now, by the locks' own clock. Never rejects: locks may be kept elsewhere, and be away. */
  async #lookAt(records: readonly ClaimedRecord[]): Promise<readonly Looked[]> {
    const fences = await this.#parts.gates.take(records.map(({ id }) => id)).catch(() => undefined)
    return Promise.all(
      records.map(async (record, at): Promise<Looked> => {
        const known = fences?.[at]
        try {
          return { record, known, fence: await this.#liveFence(record, known), isSure: fences !== undefined }
        } catch {
          return { record, known, fence: undefined, isSure: false }
        }
      }),
    )
  }

  async #liveFence(record: ClaimedRecord, known: TakenFence | undefined): Promise<number | undefined> {
    if (known === undefined || known.fence === null) return undefined
    // A grant is for one claim. Each that came to nothing has an ask of its own behind it; where that was not written,
    // as when a worker died, this is still the grant of a claim before. One of the release before took nothing: its
    // attempts tell, unless the job was retried since.
    if (known.isTaken || known.askNo < record.attempt) return undefined
    return (await this.#parts.locks.renew(askOf(record, known), known.fence)) ? known.fence : undefined
  }

  /** Jobs that nobody may do now: no fault of theirs, so it burns no attempt, however often. */
  async #sendBack(jobs: readonly Looked[]): Promise<void> {
    if (jobs.length === 0) return
    await this.inner.settle(
      jobs.map(({ record, isSure }) =>
        judge(
          { ...record, backoff: backoffDefaults },
          { kind: 'snoozed', delayMs: isSure ? 0 : lockTroubleMs },
        ),
      ),
    )
    const called = jobs.map(({ record }) => record.id)
    try {
      for (const job of jobs) if (job.isSure) called.push(...(await this.#callToLine(job)))
    } finally {
      // Only now: whoever tends it before would find it as it was, with a grant that still lives.
      this.#parts.onUnlocked(called)
    }
  }

  /** What still stood in line, or held it, would keep others waiting for nobody. Answers whose turn it is now, where known. */
  async #callToLine({ record, known }: Looked): Promise<readonly string[]> {
    if (known === undefined) return []
    const ask = askOf(record, known)
    const next =
      known.fence === null ? undefined : await this.#parts.locks.release(ask, known.fence, 'failure')
    const isShut = await this.#parts.gates.shut({ jobId: record.id, askNo: known.askNo, fence: known.fence })
    if (isShut && known.fence === null) await this.#parts.locks.leave(ask)
    return next === undefined ? [] : [next]
  }

  /** A job whose grant is not its own any more is not kept: it is free for others when its lease ends. */
  override async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const locked = this.#held.size === 0 ? [] : leases.filter(({ token }) => this.#held.has(token))
    if (locked.length === 0) return this.inner.renew(leases, leaseMs)
    const fences = await this.#parts.gates.fences(locked.map(({ jobId }) => jobId))
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
   * Whoever ran a job that comes back may go on with it, whatever was said: its next claim has to have a fence of its own,
   * so this grant ends before anybody can claim the job.
   */
  async #letGo(verdicts: readonly Verdict[]): Promise<void> {
    if (this.#held.size === 0) return
    const back = verdicts.filter(({ state }) => state === 'ready' || state === 'scheduled')
    const grants = back.flatMap(({ token }) => this.#held.get(token) ?? [])
    await Promise.all(grants.map((grant) => this.#releaseQuietly(grant)))
  }

  /** The same for jobs that were claimed elsewhere and are handed back here: what they have, only the stores know. */
  async #letGoOf(handedBack: readonly Verdict[]): Promise<void> {
    if (handedBack.length === 0) return
    const fences = await this.#parts.gates.fences(handedBack.map(({ jobId }) => jobId)).catch(() => [])
    for (const [at, known] of fences.entries()) {
      if (known === undefined || known.fence === null) continue
      const record = await this.inner.find(handedBack[at]!.jobId).catch(() => undefined)
      // One that was claimed since has a grant of its own: this was said a second time.
      if (record?.state !== 'ready') continue
      await this.#releaseQuietly({ ask: askOf(record, known), fence: known.fence })
      this.#parts.onUnlocked([record.id])
    }
  }

  /** Where the locks are away, the grant runs out. */
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
      for (const queue of queues) this.#parts.onRoom(queue)
    }
    this.#parts.onTouched(verdicts.map(({ jobId }) => jobId))
  }

  override async add(
    jobs: readonly NewJob[],
    tx?: unknown,
    wakeUps?: readonly string[],
  ): Promise<readonly Added[]> {
    const added = await this.inner.add(jobs, tx, wakeUps)
    if (jobs.some(({ gate }) => gate)) this.#parts.onGated()
    return added
  }

  override async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    const isStrange = verdicts.map(({ state, token }) => state === 'ready' && !this.#held.has(token))
    await this.#letGo(verdicts)
    const took = await this.inner.settle(verdicts)
    await this.#letGoOf(verdicts.filter((_, at) => isStrange[at] && took[at]))
    this.#settled(verdicts)
    return took
  }

  override async transact(
    work: (tx: StoreTransaction) => Promise<Verdict>,
    options: TransactOptions,
  ): Promise<void> {
    const verdicts: Verdict[] = []
    await this.inner.transact(async (tx) => noted(verdicts, await work(tx)), options)
    this.#settled(verdicts)
  }

  override async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    const verdicts: Verdict[] = []
    const outcomes = await this.inner.transactAll(
      works.map((work) => async (tx) => noted(verdicts, await work(tx))),
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

/** A job with a lock, as a claim brought it. */
interface Looked {
  readonly record: ClaimedRecord
  /** What is known of its gate; undefined: nothing. */
  readonly known: TakenFence | undefined
  /** Its live grant; undefined: it has none, or nobody could say. */
  readonly fence: number | undefined
  readonly isSure: boolean
}

/** Jobs in hand here, by token: their grants, and the queues of those that count for limits. */
interface Leased {
  readonly held: Map<string, Grant>
  readonly limited: Map<string, string>
}

/** A server makes a store for each request that is kept, and what one of them claimed another one ends. */
const leasedByLocks = new WeakMap<JobLocks, Leased>()

function leasedWith(locks: JobLocks): Leased {
  const leased = leasedByLocks.get(locks) ?? { held: new Map(), limited: new Map() }
  leasedByLocks.set(locks, leased)
  return leased
}

/** A turn of a job in hand. */
interface Grant {
  readonly ask: LockAsk
  readonly fence: number
}

/** So long a job is put off when the store of its lock does not answer. */
const lockTroubleMs = 5_000

function askOf({ id, meta }: Pick<ClaimedRecord, 'id' | 'meta'>, { askNo }: Fence): LockAsk {
  return { ...decodeLock(meta)!, jobId: id, askNo }
}

/** So much is known of the jobs in hand here; of older ones the leases decide alone. */
const maxRemembered = 100_000

function remember<Value>(known: Map<string, Value>, token: string, value: Value): void {
  known.set(token, value)
  if (known.size > maxRemembered) known.delete(known.keys().next().value!)
}

function noted(verdicts: Verdict[], verdict: Verdict): Verdict {
  verdicts.push(verdict)
  return verdict
}
