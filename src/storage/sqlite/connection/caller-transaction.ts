import { statSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { refuseCommit } from '../../../core/caller-transaction.ts'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { drizzleClient } from '../../library-transaction.ts'
import { Connection, type ConnectionDatabase } from './connection.ts'
import { isReadOnly } from './failures.ts'
import { SqliteTransaction } from './transact.ts'

/**
 * Joins a transaction that the caller opened: a node:sqlite database inside one, or the `tx` of a Signalbox
 * transaction. The caller begins and commits. The store writes inside one savepoint, so an error leaves the caller's
 * transaction unchanged. `endTransaction` ends a transaction that must not be committed.
 */
export interface Home {
  readonly path: string
  readonly storeId: string
  /** The clock of a test, if the store has one. */
  readonly now?: (() => number) | undefined
}

export function writeInCallers<Value>(
  tx: unknown,
  home: Home,
  work: (connection: Connection) => Value,
): Value {
  const db = databaseOf(tx)
  if (!db.isOpen || !db.isTransaction) {
    throw new SignalboxError(
      'transaction_required',
      `The node:sqlite database handed in as \`tx\` ${db.isOpen ? 'is not in a transaction' : 'was closed'}. Run BEGIN IMMEDIATE first, and COMMIT afterwards.`,
    )
  }
  // Created for each call: a stored connection would keep the caller's database alive.
  const connection = new Connection(new PlainDatabase(db), undefined, home.now)
  requireHome(connection, home)
  connection.run('SAVEPOINT signalbox_caller')
  try {
    const value = work(connection)
    connection.run('RELEASE signalbox_caller')
    return value
  } catch (error) {
    if (db.isTransaction) {
      connection.run('ROLLBACK TO signalbox_caller')
      connection.run('RELEASE signalbox_caller')
    }
    throw isReadOnly(error) ? readOnly(error) : error
  }
}

/**
 * Ends the caller's transaction (see core/caller-transaction.ts). After ROLLBACK alone, the caller's next statements
 * would commit one by one. So this begins another transaction, with a row in a temporary table whose foreign key refers
 * to nothing. SQLite checks that at COMMIT and refuses it, until the caller rolls back. It locks nothing in the file. A
 * connection that does not check foreign keys would commit, so it is closed.
 */
export function endTransaction(tx: unknown, error: unknown): void {
  if (tx instanceof SqliteTransaction) {
    refuseCommit(tx, error)
    return
  }
  const db = databaseOf(tx)
  if (!db.isOpen) return
  // After an error SQLite may have rolled back by itself. After a Signalbox error there was no transaction.
  if (!db.isTransaction && isSignalboxError(error)) return
  if (db.isTransaction) db.exec('ROLLBACK')
  if (new PlainDatabase(db).prepare('PRAGMA foreign_keys').get()?.foreign_keys !== 1) {
    db.close()
    return
  }
  try {
    db.exec(beginToFail)
  } catch (failure) {
    db.close()
    throw failure
  }
}

const beginToFail = `BEGIN;
CREATE TEMP TABLE signalbox_ended (
  id INTEGER PRIMARY KEY,
  missing_id INTEGER NOT NULL REFERENCES signalbox_ended (id) DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO temp.signalbox_ended (id, missing_id) VALUES (1, 2);`

function databaseOf(tx: unknown): DatabaseSync {
  // Drizzle shows the database under its transaction. Other libraries do not, so their callers pass the database
  // itself.
  const db: unknown = tx instanceof SqliteTransaction ? tx.raw : (drizzleClient(tx) ?? tx)
  if (typeof db === 'object' && db !== null) {
    const { prepare, exec, isOpen } = db as Partial<DatabaseSync>
    // Do not read `isTransaction` here: it throws on a closed database.
    const hasState = typeof isOpen === 'boolean' && 'isTransaction' in db
    if (typeof prepare === 'function' && typeof exec === 'function' && hasState) return db as DatabaseSync
  }
  throw new SignalboxError(
    'invalid_argument',
    'The `tx` of a SQLite store must be an open node:sqlite DatabaseSync in a transaction (with a library, the one it was made with), or the `tx` that job.transaction gives.',
  )
}

/** The same database, but Signalbox's statements return numbers and row objects, whatever the caller has set. */
class PlainDatabase implements ConnectionDatabase {
  readonly #db: DatabaseSync

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  get isOpen(): boolean {
    return this.#db.isOpen
  }

  get isTransaction(): boolean {
    return this.#db.isTransaction
  }

  prepare(sql: string): StatementSync {
    const statement = this.#db.prepare(sql)
    statement.setReadBigInts(false)
    statement.setReturnArrays(false)
    return statement
  }

  exec(sql: string): void {
    this.#db.exec(sql)
  }

  location(): string | null {
    return this.#db.location()
  }

  close(): void {
    this.#db.close()
  }
}

/**
 * Checks that the caller's main database is this store. A copy of the file has the same store id, so this also compares
 * the file. An attached database is refused: in WAL mode a power cut can split a commit over two files.
 */
function requireHome(connection: Connection, { path, storeId }: Home): void {
  if (readStoreId(connection, 'main') === storeId && isSameFile(connection.db.location(), path)) return
  const attached = connection
    .all<{ name: string }>('SELECT name FROM pragma_database_list')
    .some(({ name }) => name !== 'main' && name !== 'temp' && readStoreId(connection, name) === storeId)
  throw new SignalboxError(
    'wrong_database',
    attached
      ? 'The transaction handed in as `tx` has this store only as an attached database, and SQLite does not commit two files as one. Keep your tables in the store’s own file, and open that with `new DatabaseSync(…)`.'
      : `The transaction handed in as \`tx\` belongs to another database file than this store, which is "${path}".`,
  )
}

/** Undefined: the database has no such table. */
export function readStoreId(connection: Connection, schema: string): string | undefined {
  const name = `"${schema.replaceAll('"', '""')}"`
  const exists = connection.db
    .prepare(`SELECT 1 FROM ${name}.sqlite_schema WHERE type = 'table' AND name = 'signalbox_meta'`)
    .get()
  if (!exists) return undefined
  const row = connection.db.prepare(`SELECT value FROM ${name}.signalbox_meta WHERE key = 'store_id'`).get()
  return row?.value as string | undefined
}

function isSameFile(a: string | null, b: string): boolean {
  if (a === b) return true
  if (a === null) return false
  try {
    const [one, other] = [statSync(a, { bigint: true }), statSync(b, { bigint: true })]
    return one.ino === other.ino && one.dev === other.dev
  } catch {
    return false
  }
}

function readOnly(cause: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    'The node:sqlite database handed in as `tx` was opened read-only, so no job can be written with it.',
    { cause },
  )
}
