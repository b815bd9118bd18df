import { within } from './clock.ts'
import { type ErrorCode, isSignalboxError, SignalboxError } from './errors.ts'

/**
 * What a failed call does to the caller's transaction it was made in. The call may have been refused (a lost lease), or
 * half of it may be written. A caller who catches the error and commits would keep rows that say otherwise. So the
 * transaction is ended: the engine rolls it back and leaves the connection in a state that cannot commit.
 *
 * Only errors after which nothing was written, and nothing was refused, leave the transaction as it was. Answers that
 * are values (`duplicate`, `running`, `done`) are no errors. docs/transactions.md has the same table.
 */
const leavesOpen: readonly ErrorCode[] = [
  // The arguments were refused before anything was written.
  'invalid_argument',
  'too_large',
  'schema_failed',
  // There is no open transaction to end.
  'transaction_required',
  'transaction_unsupported',
]

/** The part of a store that ends transactions of callers. */
export interface TransactionEnder {
  /**
   * Rolls back the caller's transaction `tx` and leaves its connection in a state that cannot commit. For a transaction that
   * the store gave, it calls `refuseCommit` instead. `error` is the reason.
   */
  endTransaction(tx: unknown, error: unknown): Promise<void>
}

/** How long the caller waits for the rollback. It was sent before any COMMIT of the caller, so it runs first even if its answer is late. */
const endMs = 5_000

/** Does `work` in the caller's transaction, and ends the transaction if `work` fails. Without `tx`, it just does it. */
export function inCallerTransaction<Result>(
  ender: TransactionEnder,
  tx: unknown,
  work: () => Promise<Result>,
): Promise<Result> {
  return tx === undefined ? work() : orEnd(ender, tx, work)
}

async function orEnd<Result>(
  ender: TransactionEnder,
  tx: unknown,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (leavesOpen.some((code) => isSignalboxError(error, code))) throw error
    const isEnded = await end(ender, tx, error)
    throw isSignalboxError(error) ? explained(error, isEnded) : error
  }
}

function end(ender: TransactionEnder, tx: unknown, error: unknown): Promise<boolean> {
  // A connection that is lost, or a transaction that is over by now, cannot be ended and cannot be committed either.
  const ended = ender.endTransaction(tx, error).then(
    () => true,
    () => false,
  )
  return within(endMs, ended, () => false)
}

function explained(error: SignalboxError, isEnded: boolean): SignalboxError {
  const end = isEnded
    ? 'The transaction handed in as `tx` was ended, and nothing written in it can be committed. Roll it back, and begin a new one to try again.'
    : 'The transaction handed in as `tx` must not be committed: roll it back.'
  return new SignalboxError(error.code as ErrorCode, `${error.message} ${end}`, {
    cause: error,
    details: { ...error.details, transactionEnded: isEnded },
  })
}

const refusals = new WeakMap<object, { readonly error: unknown }>()

/** For a transaction that the store gave: the store rolls it back when its work is over, whatever the work returns. */
export function refuseCommit(tx: object, error: unknown): void {
  if (!refusals.has(tx)) refusals.set(tx, { error })
}

/** Throws the error that ended this transaction of the store's, if one did. */
export function throwIfRefused(tx: object): void {
  const refusal = refusals.get(tx)
  if (refusal !== undefined) throw refusal.error
}

/**
 * What can be handed in as `tx`: your open transaction, as your driver or library gave it to you. It is known by its shape
 * when it is used (see docs/transactions.md), so the type refuses only what is certain to be wrong: a pool, each statement
 * of which may run on another connection.
 */
export type CallerTransaction = object & {
  /** A pool of `pg` has it. */
  readonly totalCount?: 'A pool is not a transaction. Hand in the client that pool.connect() gave you, after BEGIN.'
  /** A pool of `mysql2` has it. */
  readonly releaseConnection?: 'A pool is not a transaction. Hand in the connection that pool.getConnection() gave you, after beginTransaction().'
}
