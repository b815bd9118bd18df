import type { Connection } from 'mysql2/promise'
import { refuseCommit } from '../../../core/caller-transaction.ts'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import {
  askKysely,
  findInnerTx,
  isKysely,
  isPrisma,
  isStoreTransaction,
  losesCount,
} from '../../library-transaction.ts'

/**
 * The objects that callers may pass as `tx`, recognized by shape: a connection of `mysql2`, with promises or with
 * callbacks, also from a pool, or the transaction of a library (see library-transaction.ts). A pool itself is refused:
 * each of its statements may run on another connection, outside the transaction.
 *
 * Each statement has its own options, because the caller's connection may be set to return rows as arrays, nested by
 * table or cast in another way.
 */
export interface CallerTx {
  query(sql: string, values: readonly unknown[]): Promise<unknown>
}

export async function toCallerTx(tx: unknown): Promise<CallerTx> {
  const inner = await findInnerTx(isStoreTransaction(tx) ? tx.raw : tx)
  if (isKysely(inner)) return { query: (sql, values) => askKysely(inner, sql, values) }
  if (isPrisma(inner)) throw refusePrisma()
  const connection = findConnection(inner)
  return {
    async query(sql, values) {
      const query = {
        sql,
        values: [...values],
        rowsAsArray: false,
        nestTables: false,
        typeCast: true,
        namedPlaceholders: false,
      } as Parameters<Connection['query']>[0]
      try {
        const [answer] = await connection.query(query)
        return answer
      } catch (error) {
        throw isClosed(error) ? transactionRequired(error) : error
      }
    },
  }
}

/**
 * Ends the caller's transaction (see core/caller-transaction.ts). After ROLLBACK alone, the caller's next statements
 * would commit one by one. So this begins a READ ONLY transaction: it writes nothing, has no savepoint, and lasts until
 * the caller's COMMIT or ROLLBACK. After an error of MariaDB, such as a deadlock, the server may have rolled back by
 * itself. After a Signalbox error, a connection without a transaction never had one, and stays unchanged.
 */
export async function endTransaction(tx: unknown, error: unknown): Promise<void> {
  if (isStoreTransaction(tx)) {
    refuseCommit(tx, error)
    return
  }
  const caller = await toCallerTx(tx)
  const isOpen = isSignalboxError(error) ? '@@in_transaction = 1 OR @@autocommit = 0' : 'TRUE'
  await caller.query(
    `BEGIN NOT ATOMIC IF ${isOpen} THEN ROLLBACK; START TRANSACTION READ ONLY; END IF; END`,
    [],
  )
  if (losesCount(tx)) findConnection(await findInnerTx(tx)).destroy()
}

function findConnection(tx: unknown): Connection {
  if (typeof tx !== 'object' || tx === null) throw refuse(tx)
  const shape = tx as {
    query?: unknown
    execute?: unknown
    getConnection?: unknown
    promise?: unknown
    beginTransaction?: unknown
    batch?: unknown
  }
  if (typeof shape.getConnection === 'function') {
    throw new SignalboxError(
      'invalid_argument',
      'tx is a pool, whose statements may each run on another connection. Pass the connection of your transaction.',
    )
  }
  if (typeof shape.query !== 'function' || typeof shape.beginTransaction !== 'function') throw refuse(tx)
  // The driver's callback connection has a `promise` method that returns the promise connection on the same socket.
  if (typeof shape.promise === 'function') return (shape.promise as () => Connection).call(tx)
  // The driver called `mariadb` has a connection with the same methods, but different results.
  if (typeof shape.execute !== 'function' || typeof shape.batch === 'function') throw refuse(tx)
  return tx as Connection
}

function refuse(tx: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `tx must be a connection of mysql2 that is in a transaction, or the transaction of a library that Signalbox knows, not ${show(tx)}.`,
  )
}

/**
 * Prisma prepares every text on the server, and splits the result of a compound statement into pieces without names.
 */
function refusePrisma(): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    'tx is of Prisma, which cannot run the compound statement that ends a job on MariaDB. Use job.transaction, or a connection of mysql2.',
  )
}

/** The driver's error for a connection that ended before the statement was sent. */
function isClosed(error: unknown): boolean {
  return /connection is in closed state/.test(String((error as Error | undefined)?.message))
}

export function transactionRequired(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_required',
    'The connection handed in as tx is not in a transaction. Begin one first; after a deadlock (error 1213) MariaDB has ended it.',
    cause === undefined ? {} : { cause },
  )
}

export function wrongDatabase(cause?: unknown): SignalboxError {
  return new SignalboxError(
    'wrong_database',
    'The transaction handed in as tx is on another server than the store, so the two cannot commit together.',
    cause === undefined ? {} : { cause },
  )
}
