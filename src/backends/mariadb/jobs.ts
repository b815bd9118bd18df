import type { JobStore } from '../../jobs/index.ts'
import { createAdd } from './add.ts'
import { createClaim } from './claim.ts'
import { cancelRequests, outcomes, renew } from './leases.ts'
import { cancel, pause, prune, resume, retry, retryDead } from './operate.ts'
import { Positions } from './position.ts'
import { find, list, stats } from './reads.ts'
import { reclaim } from './reclaim.ts'
import { settle, settleIn } from './settle.ts'
import type { Store } from './store.ts'
import { transact, transactAll } from './transact.ts'

/** The JobStore of MariaDB: each part is a file, and all share the pools and the claims' positions. */
export function createMariadbJobs(store: Store): JobStore {
  const positions = new Positions()
  /** For what may put a job before the place where claims begin to look. */
  const thenForget = async <Answer>(call: Promise<Answer>): Promise<Answer> => {
    const answer = await call
    positions.forget()
    return answer
  }
  return {
    add: createAdd(store, positions),
    claim: createClaim(store, positions),
    renew: (leases, leaseMs) => renew(store, leases, leaseMs),
    settle: (verdicts) => {
      const settled = settle(store, verdicts)
      return verdicts.some(({ state }) => state === 'ready' || state === 'scheduled')
        ? thenForget(settled)
        : settled
    },
    settleIn: (tx, verdict) => settleIn(store, tx, verdict),
    transact: (work, options) => transact(store, work, options),
    transactAll: (works, options) => transactAll(store, works, options),
    outcomes: (leases) => outcomes(store, leases),
    cancelRequests: (leases) => cancelRequests(store, leases),
    reclaim: (limit) => thenForget(reclaim(store, limit)),
    find: (id) => find(store, id),
    list: (query) => list(store, query),
    cancel: (id) => cancel(store, id),
    retry: (id) => thenForget(retry(store, id)),
    retryDead: (query) => thenForget(retryDead(store, query)),
    stats: () => stats(store),
    pause: (queue) => pause(store, queue),
    resume: (queue) => resume(store, queue),
    prune: (request) => prune(store, request),
  }
}
