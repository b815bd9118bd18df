import { SignalboxError } from '../../core/errors.ts'
import { findInnerTx, isKysely, isPostgresJs, isPrisma } from '../librarytx.ts'
import { isStoreTransaction } from '../storetx.ts'
import { type Runner, statusOf } from './connection.ts'
import { sqlState } from './failures.ts'
import { throughKysely, throughPostgresJs, throughPrisma } from './spoken.ts'

/**
 * A transaction of the caller's own, by its shape: a `pg` Client or a client lent by a Pool, with BEGIN behind it, or
 * the transaction of a library (see librarytx.ts). A pool is refused: each of its statements may run on another
 * connection, in no transaction at all.
 */
export async function requireTransaction(tx: unknown): Promise<Runner> {
  // Ours: BEGIN is on its way, though perhaps not answered, so the connection's status says nothing yet.
  if (isStoreTransaction(tx)) return tx.raw as Runner
  const inner = await findInnerTx(tx)
  if (isKysely(inner)) return probed(throughKysely(inner))
  if (isPostgresJs(inner)) return probed(throughPostgresJs(inner))
  if (isPrisma(inner)) return probed(throughPrisma(inner))
  const shape = inner as { query?: unknown; idleCount?: unknown; totalCount?: unknown } | null | undefined
  if (typeof shape !== 'object' || shape === null || typeof shape.query !== 'function') {
    throw new SignalboxError(
      'invalid_argument',
      'tx must be a `pg` client with an open transaction (a Client, or one that a Pool lent), or the transaction of a library that Signalbox knows.',
    )
  }
  if (shape.idleCount !== undefined || shape.totalCount !== undefined) {
    throw new SignalboxError(
      'invalid_argument',
      'tx is a pool, and each statement of a pool may run on another connection. Hand in the client that pool.connect() gave you, after BEGIN.',
    )
  }
  const client = inner as Runner
  const status = statusOf(client)
  // On a pipelined connection BEGIN may have been sent and not answered yet; there only the server knows.
  const mayBeLate = (client as { pipeline?: unknown }).pipeline === true
  if (status === 'I' && !mayBeLate) throw notInTransaction()
  if (status === 'E') {
    throw new SignalboxError(
      'transaction_required',
      'The transaction of tx has failed already: an earlier statement in it ended in an error. Roll it back; nothing can be written in it.',
    )
  }
  return status === null || status === 'I' ? probed(client) : client
}

/** For a client that does not tell: a savepoint is refused outside a transaction, and harmless inside one. */
async function probed(client: Runner): Promise<Runner> {
  try {
    await client.query('SAVEPOINT signalbox_probe')
    await client.query('RELEASE SAVEPOINT signalbox_probe')
    return client
  } catch (error) {
    if (sqlState(error) === '25P01') throw notInTransaction(error)
    throw error
  }
}

function notInTransaction(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_required',
    'tx is not in a transaction. Run BEGIN on it first, and COMMIT when you are done.',
    cause === undefined ? {} : { cause },
  )
}

/** The tables are not there, or they are another store's. */
export function wrongDatabase(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'wrong_database',
    'The transaction handed in as tx is connected to another database (or schema) than this store. Use a connection to the same one.',
    cause === undefined ? {} : { cause },
  )
}

/** Runs statements of ours in the caller's transaction. */
export async function inCallers<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw isMissing(error) ? wrongDatabase(error) : error
  }
}

function isMissing(error: unknown): boolean {
  return ['42P01', '3F000', '42883', '42704'].includes(sqlState(error) ?? '')
}
