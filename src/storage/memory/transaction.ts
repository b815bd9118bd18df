import { SignalboxError } from '../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../jobs/index.ts'
import { tookTooLong } from '../transaction-errors.ts'

/**
 * Memory has no user data, so a transaction consists of the verdict alone. `work` runs, and then the caller writes all
 * verdicts in one step, or none.
 */
export async function runWorks(
  works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
  { timeoutMs, signal }: TransactOptions,
): Promise<readonly ({ readonly verdict: Verdict } | { readonly error: unknown })[]> {
  signal?.throwIfAborted()
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const timer = timeoutMs > 0 ? setTimeout(() => reject(tookTooLong(timeoutMs)), timeoutMs) : undefined
  const abort = () => reject(signal!.reason)
  signal?.addEventListener('abort', abort)
  try {
    const outcomes: ({ verdict: Verdict } | { error: unknown })[] = []
    for (const work of works) outcomes.push(await Promise.race([runWork(work), ended]))
    signal?.throwIfAborted()
    return outcomes
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

async function runWork(work: (tx: StoreTransaction) => Promise<Verdict>) {
  try {
    return { verdict: await work(noTransaction) }
  } catch (error) {
    return { error }
  }
}

/** The error for calls that need SQL or a connection, which memory does not have. */
export function unsupported(): SignalboxError {
  return new SignalboxError(
    'transaction_unsupported',
    'The memory store has no tables of yours and takes part in no transaction. Use sqlite:, postgres:// or mysql:// for that.',
  )
}

const refuse = async () => {
  throw unsupported()
}
// `raw` is an object, so that the store refuses `{ tx: tx.raw }` instead of ignoring an undefined tx.
const noTransaction: StoreTransaction = { query: refuse, sql: refuse, raw: Object.freeze({}) }
