import type { JobStore, StoreTransaction, TransactOptions, Verdict } from '../job-store.ts'

/**
 * Transactions that share a commit. Calls that come during the commit of a group form the next one, so a single call
 * waits for no other, and many calls pay for one commit. A call that fails is rolled back to its savepoint and gets its
 * error alone; when the commit as a whole fails, every member gets the error.
 */
export interface TransactionGroups {
  run(size: number, work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void>
}

interface Waiting {
  readonly work: (tx: StoreTransaction) => Promise<Verdict>
  readonly options: TransactOptions
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Groups under way at once: while one commits, another is at work. */
const maxGroups = 2

export function createTransactionGroups(store: Pick<JobStore, 'transactAll'>): TransactionGroups {
  let waiting: Waiting[] = []
  let groups = 0

  async function commitAll(size: number): Promise<void> {
    groups++
    // A turn of the event loop later, so that all handlers that were just called can join.
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      const group = waiting.slice(0, size)
      waiting = waiting.slice(size)
      await commit(group)
    }
    groups--
  }

  async function commit(group: readonly Waiting[]): Promise<void> {
    // 0 is the engine's own bound, and who asked for no other keeps it.
    const timeouts = group.map(({ options }) => options.timeoutMs)
    const timeoutMs = timeouts.includes(0) ? 0 : Math.max(...timeouts)
    const leaseMs = group[0]?.options.leaseMs
    try {
      const answers = await store.transactAll(
        group.map(({ work, options }) => alone(work, options.signal)),
        leaseMs === undefined ? { timeoutMs } : { timeoutMs, leaseMs },
      )
      group.forEach(({ resolve, reject }, index) => {
        const answer = answers[index]
        if (answer === undefined) resolve()
        else reject(answer.error)
      })
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  return {
    run: (size, work, options) =>
      new Promise((resolve, reject) => {
        waiting.push({ work, options, resolve, reject })
        if (groups < maxGroups) void commitAll(size)
      }),
  }
}

/** One member's work, over when its signal aborts, so that a handler that hangs does not delay its group. */
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
      // The store takes `tx` from a work that has ended, so what hangs cannot write into its neighbours' savepoints.
      return await Promise.race([work(tx), aborted])
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }
}
