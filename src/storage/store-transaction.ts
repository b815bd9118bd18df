import type { StoreTransaction } from '../jobs/index.ts'

/**
 * Whether a caller's `tx` is the one that `job.transaction` gave them. It is taken like their own: adding the next job
 * in the transaction that completes this one is the commonest reason to hand one in.
 */
export function isStoreTransaction(tx: unknown): tx is StoreTransaction {
  if (typeof tx !== 'object' || tx === null) return false
  const { query, sql } = tx as { query?: unknown; sql?: unknown }
  return typeof query === 'function' && typeof sql === 'function' && 'raw' in tx
}
