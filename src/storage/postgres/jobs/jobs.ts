import { Batcher } from '../../../core/batcher.ts'
import type {
  JobStore,
  LeaseRef,
  NewJob,
  Renewal,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from '../../../jobs/index.ts'
import { createJobReads } from '../../sql/job-reads.ts'
import { createJobControl } from '../../sql/jobs/job-control.ts'
import { endTransaction, requireTransaction } from '../connection/caller-transaction.ts'
import type { Connections } from '../connection/connection.ts'
import { isValueError } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import { Transactor } from '../connection/transact.ts'
import { addClaimed } from './add-claimed.ts'
import { add, addIn } from './adder.ts'
import { Claimer } from './claim.ts'
import { createEstimate } from './counts.ts'
import { reclaim, reclaimThese } from './reclaim.ts'
import { renew } from './renew.ts'
import { type DecodedVerdict, type Settled, settle, settleIn, trySettle } from './settle.ts'
import type { Scope, Space } from './space.ts'

type Work = (tx: StoreTransaction) => Promise<Verdict>

/**
 * The JobStore of Postgres: each verb is a file. sql/schema/jobs.ts explains the tables. `sender` runs all statements
 * outside the transactions of handlers and callers.
 *
 * Single verdicts and renewals that arrive together share statements, as claims do (claim.ts). A lone one waits for no
 * other.
 */
export function createPostgresJobs(
  connections: Connections,
  space: Space,
  sender: Sender = connections,
): JobStore {
  const scope: Scope = { ...space, sender }
  const { positions, schema } = space
  const claimer = new Claimer(scope)
  const transactor = new Transactor(connections, space)
  const sharing = { maxItems: 500, maxInFlight: 2, gatherMs: 5, isItemError: isValueError }
  const verdicts = new Batcher<DecodedVerdict, Settled>({
    ...sharing,
    run: (decoded) => trySettle(scope, decoded),
  })
  const renewals = new Map<number, Batcher<LeaseRef, Renewal | undefined>>()

  async function renewOne(ref: LeaseRef, leaseMs: number): Promise<readonly Renewal[]> {
    let batcher = renewals.get(leaseMs)
    if (batcher === undefined) {
      batcher = new Batcher({ ...sharing, run: (refs) => renewEach(refs, leaseMs) })
      renewals.set(leaseMs, batcher)
    }
    try {
      const renewal = await batcher.add(ref)
      return renewal === undefined ? [] : [renewal]
    } finally {
      if (batcher.isIdle) renewals.delete(leaseMs)
    }
  }

  /** The renewal of each lease; undefined if the lease is lost. */
  async function renewEach(
    refs: readonly LeaseRef[],
    leaseMs: number,
  ): Promise<readonly (Renewal | undefined)[]> {
    const kept = await renew(scope, refs, leaseMs)
    const byLease = new Map(kept.map((renewal) => [`${renewal.jobId} ${renewal.token}`, renewal]))
    return refs.map(({ jobId, token }) => byLease.get(`${jobId} ${token}`))
  }

  return {
    async add(jobs: readonly NewJob[], tx?: unknown, wakeUps: readonly string[] = []) {
      if (jobs.length === 0) return []
      if (tx === undefined) {
        const added = await add(scope, jobs, wakeUps)
        sender.onCommit(() => positions.added(jobs))
        return added
      }
      const added = await addIn(scope, await requireTransaction(tx), jobs)
      positions.added(jobs)
      return added
    },
    // This program may add jobs to a schema from which it must not claim.
    addClaimed: async (job, request) => (schema.isRefusing() ? undefined : addClaimed(scope, job, request)),
    async claim(request) {
      schema.refuse()
      return claimer.claim(request)
    },
    renew: async ([ref, ...others], leaseMs) => {
      if (ref === undefined) return []
      const isShared = others.length === 0 && !sender.isOneTransaction
      return isShared ? renewOne(ref, leaseMs) : renew(scope, [ref, ...others], leaseMs)
    },
    settle: (some) => {
      const isShared = some.length === 1 && !sender.isOneTransaction
      return settle(scope, some, isShared ? async ([one]) => [await verdicts.add(one!)] : undefined)
    },
    settleIn: (tx, verdict) => settleIn(scope, tx, verdict),
    endTransaction,
    transact: (work: Work, options: TransactOptions) => transactor.transact(work, options),
    transactAll: async (works: readonly Work[], options: TransactOptions) =>
      works.length === 0 ? [] : transactor.transactAll(works, options),
    reclaim: (limit) => reclaim(scope, limit),
    ...createJobReads(space.database, space.namespace, createEstimate(connections, space)),
    ...createJobControl({
      database: sender.isOneTransaction ? space.database.within(sender) : space.database,
      namespace: space.namespace,
      reclaimThese: (ids) => reclaimThese(scope, ids),
      reclaim: (limit) => reclaim(scope, limit),
      onReady: () => sender.onCommit(() => positions.forget()),
    }),
  }
}
