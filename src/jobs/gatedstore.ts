import type { Fence, GateStore } from './gatestore.ts'
import type { JobLocks, LockAsk } from './joblocks.ts'
import { backoffDefaults, judge } from './lifecycle.ts'
import { decodeLock } from './meta.ts'
import type {
  Added,
  ClaimedRecord,
  ClaimRequest,
  JobStore,
  LeaseRef,
  NewJob,
  Renewal,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from './store.ts'

/** What a gated store is made of. */
export interface GatedStoreParts {
  readonly store: JobStore
  readonly gates: GateStore
  readonly locks: JobLocks
  /** A job that waits was added. */
  onGated(): void
  /** These jobs ended here, or go back in line. */
  onTouched(jobIds: readonly string[]): void
  /** These jobs had a lock, and are done with it. */
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
export function createGatedStore(parts: GatedStoreParts): JobStore {
  const { store, gates, locks, onTouched } = parts
  /** By token: the grants of the jobs in hand here, and the queues of those that count for limits. */
  const held = new Map<string, number>()
  const limited = new Map<string, string>()

  async function claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const records = await store.claim(request)
    for (const record of records) if (record.limited) remember(limited, record.token, record.queue)
    const locked = records.filter(({ meta }) => meta?.includes('"lock"') && decodeLock(meta) !== null)
    if (locked.length === 0) return records
    const fenced = new Map<string, number>()
    const fences = await gates.fences(locked.map(({ id }) => id))
    for (const [at, record] of locked.entries()) {
      const fence = await liveFence(record, fences[at])
      if (fence === undefined) continue
      fenced.set(record.id, fence)
      remember(held, record.token, fence)
    }
    await sendBack(
      locked.flatMap((record, at) => (fenced.has(record.id) ? [] : [{ record, fence: fences[at] }])),
    )
    const isSentBack = new Set(locked.map(({ id }) => id).filter((id) => !fenced.has(id)))
    return records
      .filter(({ id }) => !isSentBack.has(id))
      .map((record) => (fenced.has(record.id) ? { ...record, fence: fenced.get(record.id)! } : record))
  }

  /** The fence of a grant that is alive now, by the locks' own clock. */
  async function liveFence(record: ClaimedRecord, known: Fence | undefined): Promise<number | undefined> {
    if (known === undefined || known.fence === null) return undefined
    // A grant is for one attempt. Each that failed, or was lost with its worker, has an ask of its own behind it; where
    // that was not written yet, this is still the grant of an attempt before.
    if (known.askNo < record.attempt) return undefined
    return (await locks.renew(askOf(record, known), known.fence)) ? known.fence : undefined
  }

  async function sendBack(
    jobs: readonly { readonly record: ClaimedRecord; readonly fence: Fence | undefined }[],
  ): Promise<void> {
    if (jobs.length === 0) return
    await store.settle(
      jobs.map(({ record }) =>
        judge({ ...record, backoff: backoffDefaults }, { kind: 'interrupted', delayMs: 0 }),
      ),
    )
    for (const { record, fence } of jobs) {
      if (fence === undefined) continue
      const ask = askOf(record, fence)
      // What still stood in line, or held it, would keep others waiting for nobody.
      if (fence.fence !== null) await locks.release(ask, fence.fence, 'failure')
      const isShut = await gates.shut({ jobId: record.id, ...fence })
      if (isShut && fence.fence === null) await locks.leave(ask)
    }
    onTouched(jobs.map(({ record }) => record.id))
  }

  async function renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    const renewals = await store.renew(leases, leaseMs)
    const locked = renewals.filter(({ token }) => held.has(token))
    if (locked.length === 0) return renewals
    const fences = await gates.fences(locked.map(({ jobId }) => jobId))
    const lost = new Set(
      locked.filter(({ token }, at) => fences[at]?.fence !== held.get(token)).map(({ token }) => token),
    )
    return renewals.filter(({ token }) => !lost.has(token))
  }

  function settled(verdicts: readonly Verdict[]): void {
    if (held.size > 0)
      parts.onUnlocked(verdicts.filter(({ token }) => held.delete(token)).map(({ jobId }) => jobId))
    if (limited.size > 0) {
      const queues = new Set(verdicts.flatMap(({ token }) => limited.get(token) ?? []))
      for (const { token } of verdicts) limited.delete(token)
      for (const queue of queues) parts.onRoom(queue)
    }
    onTouched(verdicts.map(({ jobId }) => jobId))
  }

  const gated: Partial<JobStore> = {
    claim,
    renew,

    async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
      const added = await store.add(jobs, tx)
      if (jobs.some(({ gate }) => gate)) parts.onGated()
      return added
    },

    async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
      const took = await store.settle(verdicts)
      settled(verdicts)
      return took
    },

    async transact(
      work: (tx: StoreTransaction) => Promise<Verdict>,
      options: TransactOptions,
    ): Promise<void> {
      const verdicts: Verdict[] = []
      await store.transact(async (tx) => noted(verdicts, await work(tx)), options)
      settled(verdicts)
    },

    async transactAll(works, options) {
      const verdicts: Verdict[] = []
      const outcomes = await store.transactAll(
        works.map((work) => async (tx) => noted(verdicts, await work(tx))),
        options,
      )
      settled(verdicts)
      return outcomes
    },

    async cancel(id: string) {
      const answer = await store.cancel(id)
      if (answer !== undefined) onTouched([id])
      return answer
    },

    async remove(ids: readonly string[]) {
      const removed = await store.remove(ids)
      onTouched(removed)
      return removed
    },
  }
  return new Proxy(store, {
    get(target, name) {
      if (name in gated) return gated[name as keyof JobStore]
      const verb: unknown = Reflect.get(target, name)
      return typeof verb === 'function' ? verb.bind(target) : verb
    },
  })
}

function askOf({ id, meta }: ClaimedRecord, { askNo }: Fence): LockAsk {
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
