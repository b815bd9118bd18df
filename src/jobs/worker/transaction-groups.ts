import { Batcher } from '../../core/batcher.ts'
import type { JobStore, StoreTransaction, TransactOptions, Verdict } from '../job-store.ts'

/**
 * Groups transactions so that they share a commit. Calls that arrive during the commit of a group form the next group,
 * so a single call waits for no other, and many calls pay for one commit. A call that fails rolls back to its
 * savepoint, and only that call gets the error. When the commit fails, every member gets the error.
 */
export interface TransactionGroups {
  run(size: number, work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void>
}

interface Member {
  readonly work: (tx: StoreTransaction) => Promise<Verdict>
  readonly options: TransactOptions
}

type Answer = undefined | { readonly error: unknown }

export function createTransactionGroups(store: Pick<JobStore, 'transactAll'>): TransactionGroups {
  const bySize = new Map<number, Batcher<Member, Answer>>()

  function commit(group: readonly Member[]): Promise<readonly Answer[]> {
    // 0 is the engine's default time-out. A member without its own time-out keeps the default for the group.
    const timeouts = group.map(({ options }) => options.timeoutMs)
    const timeoutMs = timeouts.includes(0) ? 0 : Math.max(...timeouts)
    const leaseMs = group[0]?.options.leaseMs
    return store.transactAll(
      group.map(({ work, options }) => alone(work, options.signal)),
      leaseMs === undefined ? { timeoutMs } : { timeoutMs, leaseMs },
    )
  }

  return {
    async run(size, work, options) {
      let groups = bySize.get(size)
      if (groups === undefined) {
        // Two at once: one group runs its work while the other commits.
        groups = new Batcher({ run: commit, maxItems: size, maxInFlight: 2 })
        bySize.set(size, groups)
      }
      const answer = await groups.add({ work, options })
      if (answer !== undefined) throw answer.error
    },
  }
}

/** Runs one member's work until its signal aborts, so that a handler that hangs does not delay its group. */
function alone(
  work: (tx: StoreTransaction) => Promise<Verdict>,
  signal: TransactOptions['signal'],
): (tx: StoreTransaction) => Promise<Verdict> {
  if (signal === undefined) return work
  return async (tx) => {
    signal.throwIfAborted()
    const { promise: aborted, reject } = Promise.withResolvers<never>()
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort)
    try {
      // The store disables `tx` when the work ends, so work that hangs cannot write into another member's savepoint.
      return await Promise.race([work(tx), aborted])
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }
}
