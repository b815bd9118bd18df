import { SignalboxError } from '../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../jobs/index.ts'

/**
 * Memory has no data of the user's to commit with, so its transaction is the verdict alone: `work` runs, and what it
 * answers is written by the caller afterwards, in one step, or not at all.
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

/** That memory cannot do this: it has neither SQL nor a connection. */
export function unsupported(): SignalboxError {
  return new SignalboxError(
    'transaction_unsupported',
    'The memory store has no tables of yours and takes part in no transaction. Use sqlite:, postgres:// or mysql:// for that.',
  )
}

const refuse = async () => {
  throw unsupported()
}
// `raw` is something, so that `{ tx: tx.raw }` is refused and not taken for no transaction at all.
const noTransaction: StoreTransaction = { query: refuse, sql: refuse, raw: Object.freeze({}) }

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and was rolled back. Do slow work before it, or raise transactionTimeoutMs.`,
    { details: { timeoutMs } },
  )
}
