import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { SignalboxError } from '../../../core/errors.ts'
import type { QueryResult, StoreTransaction } from '../../../jobs/index.ts'
import type { Connection } from './connection.ts'

/**
 * What a handler writes with. It stops working the moment its transaction ends, whoever ended it, so that a statement
 * that comes too late is refused and does not fall into somebody else's transaction.
 */
export class SqliteTransaction implements StoreTransaction {
  readonly #connection: Connection
  #isEnded = false
  #reason: unknown

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get raw(): DatabaseSync {
    // Afterwards the connection is in somebody else's transaction.
    if (this.#isEnded) throw this.#reason ?? over()
    // A handler's connection is one that the store opened itself.
    return this.#connection.db as DatabaseSync
  }

  async query(sql: string, params: readonly unknown[] = []): Promise<QueryResult> {
    if (this.#isEnded) throw this.#reason ?? over()
    // Ending the transaction is not for the handler: its job would no longer end with its data.
    if (/^\s*(?:BEGIN|COMMIT|END|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b))\b/i.test(sql)) throw ownedByUs()
    const statement = this.#connection.prepare(sql)
    const values = params.map(toValue)
    if (!this.#connection.givesRows(statement)) {
      return { rows: [], rowCount: Number(statement.run(...values).changes) }
    }
    const rows = statement.all(...values).map((row) => ({ ...row }))
    return { rows, rowCount: rows.length }
  }

  sql(strings: TemplateStringsArray, ...params: readonly unknown[]): Promise<QueryResult> {
    return this.query(strings.join('?'), params)
  }

  /** Refuses whatever comes from now on, with this error; without one, it is made when somebody comes. */
  end(reason?: unknown): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#reason = reason
  }
}

/** SQLite has no booleans; every other value is bound as it is, and refused by the driver where it cannot be. */
function toValue(value: unknown): SQLInputValue {
  return typeof value === 'boolean' ? Number(value) : (value as SQLInputValue)
}

function over(): SignalboxError {
  return new SignalboxError(
    'closed',
    'This transaction has ended. Await everything you do with `tx` before its function returns.',
  )
}

function ownedByUs(): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    'A transaction given by Signalbox is begun and ended by it: return to commit, throw to roll back, and use SAVEPOINT for parts.',
  )
}
