import type { JobStore, StoreTransaction, Verdict } from '../../../jobs/index.ts'
import { createJobReads } from '../../sql/job-reads.ts'
import { createJobControl } from '../../sql/jobs/job-control.ts'
import { endTransaction } from '../connection/caller-transaction.ts'
import { transact, transactAll } from '../connection/transact.ts'
import type { Store } from '../engine-store.ts'
import { createAdd } from './add.ts'
import { createClaim } from './claim.ts'
import { createEstimate } from './counts.ts'
import { reclaim, reclaimThese } from './reclaim.ts'
import { renew } from './renew.ts'
import { settle, settleIn } from './settle.ts'

type Work = (tx: StoreTransaction) => Promise<Verdict>

/** The JobStore of MariaDB. Each part is a file; all share the pools and the claims' positions. */
export function createMariadbJobs(store: Store): JobStore {
  const { database } = store
  const { positions } = store.memory
  const forget = () => store.calls.onCommit(() => positions.forget())
  /** Forgets the claims' positions after users' transactions, of which the store sees only the verdicts. */
  const watched = async <Answer>(run: (watch: (work: Work) => Work) => Promise<Answer>): Promise<Answer> => {
    let isBack = false
    const watch = (work: Work) => async (tx: StoreTransaction) => {
      const verdict = await work(tx)
      isBack ||= verdict.state === 'ready' || verdict.state === 'scheduled'
      return verdict
    }
    const answer = await run(watch)
    if (isBack) positions.forget()
    return answer
  }
  return {
    add: createAdd(store),
    claim: createClaim(store),
    renew: (leases, leaseMs) => renew(store, leases, leaseMs),
    settle: (verdicts) => settle(store, verdicts),
    settleIn: (tx, verdict) => settleIn(store, tx, verdict),
    endTransaction,
    transact: (work, options) => watched((watch) => transact(store, watch(work), options)),
    transactAll: (works, options) => watched((watch) => transactAll(store, works.map(watch), options)),
    reclaim: async (limit) => {
      const count = await reclaim(store, limit)
      if (count.ready > 0) forget()
      return count
    },
    ...createJobReads(database, store.namespace, createEstimate(store)),
    ...createJobControl({
      database: store.calls.isOne ? database.withCalls(store.calls) : database,
      namespace: store.namespace,
      reclaimThese: (ids) => reclaimThese(store, ids),
      reclaim: (limit) => reclaim(store, limit),
      onReady: forget,
    }),
  }
}
