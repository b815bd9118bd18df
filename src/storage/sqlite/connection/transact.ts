import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { SignalboxError } from '../../../core/errors.ts'
import type { QueryResult, StoreTransaction, TransactOptions, Verdict } from '../../../jobs/index.ts'
import { leaseLost, tookTooLong } from '../../transaction-errors.ts'
import { settleAll } from '../jobs/settle.ts'
import type { WriteQueue } from '../writing/write-queue.ts'
import { type Connection, momentOf } from './connection.ts'
import { explain, isBusy, isInputOutput } from './failures.ts'
import { untilFree } from './reader.ts'

/**
 * Commits a handler's writes together with the end of its job. The transaction holds the write queue from BEGIN
 * IMMEDIATE to COMMIT, so there is only one at a time. It uses a separate connection, which handlers see as `tx.raw`.
 *
 * The write queue is never blocked for long: after its time limit, the transaction is rolled back at once. Its
 * connection is closed and replaced, because the handler may still use it.
 */
type Work = (tx: StoreTransaction) => Promise<Verdict>

export interface TransactionsOptions {
  readonly writeQueue: WriteQueue
  open(): Connection
  /** As for the write queue. */
  began(connection: Connection): void
}

/** The engine's own limit, because all other writes wait meanwhile. */
const defaultTimeoutMs = 5_000
/** How long BEGIN and COMMIT wait for other processes. */
const lockWaitMs = 5_000

export class Transactions {
  readonly #options: TransactionsOptions
  #connection: Connection | undefined
  /** The limit of the current transaction, if any. */
  #limit: Limit | undefined

  constructor(options: TransactionsOptions) {
    this.#options = options
    const { closing } = options.writeQueue
    closing.addEventListener('abort', () => this.#limit?.end(closing.reason))
  }

  transact(namespace: string, work: Work, options: TransactOptions): Promise<void> {
    return this.#within(options, async (connection, limit) => {
      const failed = await this.#attempt(connection, namespace, work, limit)
      if (failed) throw failed.error
    })
  }

  transactAll(
    namespace: string,
    works: readonly Work[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    return this.#within(options, async (connection, limit) => {
      const answers: (undefined | { error: unknown })[] = []
      for (const work of works) {
        connection.run('SAVEPOINT signalbox_part')
        const failed = await this.#attempt(connection, namespace, work, limit)
        answers.push(failed)
        if (!connection.db.isTransaction) throw failed ? failed.error : gaveUp()
        if (failed) connection.run('ROLLBACK TO signalbox_part')
        connection.run('RELEASE signalbox_part')
      }
      return answers
    })
  }

  close(): void {
    this.#drop()
  }

  /** Runs from BEGIN to COMMIT. */
  #within<Value>(
    { timeoutMs, leaseMs, signal }: TransactOptions,
    inside: (connection: Connection, limit: Limit) => Promise<Value>,
  ): Promise<Value> {
    const { writeQueue } = this.#options
    const check = () => {
      signal?.throwIfAborted()
      writeQueue.closing.throwIfAborted()
    }
    const transaction = async (): Promise<Value> => {
      // Another process rarely has the file, so only that case pays for waiting.
      const connection = this.#begin() ?? (await untilFree(() => this.#begin(), lockWaitMs, check))
      const limit = new Limit(timeoutMs === 0 ? ownLimitMs(leaseMs) : timeoutMs)
      this.#limit = limit
      // If the signal aborted during the wait for the lock, there was no transaction to interrupt yet.
      if (signal?.aborted) limit.end(signal.reason)
      if (writeQueue.closing.aborted) limit.end(writeQueue.closing.reason)
      try {
        const value = await inside(connection, limit)
        // Only the commit remains, and nothing may interrupt it.
        limit.stop()
        if (!this.#commit(connection)) await untilFree(() => this.#commit(connection), lockWaitMs)
        return value
      } catch (error) {
        this.#abandon(connection, limit.isOver)
        throw error
      } finally {
        limit.stop()
        this.#limit = undefined
      }
    }
    return writeQueue.hold(transaction, signal, (reason) => this.#limit?.end(reason))
  }

  /** Undefined: another process has the file. */
  #begin(): Connection | undefined {
    try {
      this.#connection ??= this.#options.open()
      this.#connection.begin()
    } catch (error) {
      if (isBusy(error)) return undefined
      if (isInputOutput(error)) this.#drop()
      throw explain(error)
    }
    this.#options.began(this.#connection)
    return this.#connection
  }

  /**
   * Runs one handler and writes its verdict. Returns the handler's error, if any. Throws errors that end the whole
   * transaction.
   */
  async #attempt(
    connection: Connection,
    namespace: string,
    work: Work,
    limit: Limit,
  ): Promise<undefined | { readonly error: unknown }> {
    if (limit.isOver) throw limit.reason
    const tx = new SqliteTransaction(connection)
    let verdict: Verdict
    try {
      verdict = await limit.run(tx, work)
    } catch (error) {
      if (limit.isOver) throw limit.reason
      tx.end()
      return { error }
    }
    tx.end()
    // SQLite rolls back by itself after some errors, and the handler may have swallowed that error.
    if (!connection.db.isTransaction) throw gaveUp()
    try {
      const [took] = settleAll(momentOf(connection, namespace), [verdict])
      return took ? undefined : { error: leaseLost(verdict.jobId) }
    } catch (error) {
      return { error: explain(error) }
    }
  }

  /** Undefined: another process has the file. */
  #commit(connection: Connection): true | undefined {
    if (!connection.db.isTransaction) throw gaveUp()
    try {
      connection.commit()
      return true
    } catch (error) {
      if (isBusy(error)) return undefined
      if (!isInputOutput(error)) throw explain(error)
      this.#drop()
      throw commitUnknown(error)
    }
  }

  /** Rolls back. Drops a connection that its handler may still use, or that cannot roll back. */
  #abandon(connection: Connection, stillInUse: boolean): void {
    try {
      connection.rollback()
    } catch {
      this.#drop()
    }
    if (stillInUse) this.#drop()
  }

  #drop(): void {
    this.#connection?.abandon()
    this.#connection = undefined
  }
}

/** Ends a transaction from outside: its time limit passed, its signal aborted, or the store closed. */
class Limit {
  isOver = false
  reason: unknown
  readonly #timer: ReturnType<typeof setTimeout>
  #tx: SqliteTransaction | undefined
  #reject: ((reason: unknown) => void) | undefined

  constructor(timeoutMs: number) {
    this.#timer = setTimeout(
      () => this.end(tookTooLong(timeoutMs, ': on SQLite all other writes wait for it')),
      timeoutMs,
    )
  }

  /** Returns the result of `work`, or throws the reason of the end if that comes first. The `tx` is then refused. */
  run(tx: SqliteTransaction, work: Work): Promise<Verdict> {
    this.#tx = tx
    return new Promise((resolve, reject) => {
      this.#reject = reject
      work(tx).then(resolve, reject)
    })
  }

  end(reason: unknown): void {
    if (this.isOver) return
    this.isOver = true
    this.reason = reason
    this.#tx?.end(reason)
    this.#reject?.(reason)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** Renewals wait for the current transaction, so it may last at most a third of the lease. */
function ownLimitMs(leaseMs = Number.POSITIVE_INFINITY): number {
  return Math.max(1, Math.min(defaultTimeoutMs, Math.floor(leaseMs / 3)))
}

function gaveUp(): SignalboxError {
  return new SignalboxError(
    'transaction_conflict',
    'SQLite ended this transaction before it was committed, after an error of one of its statements, and rolled it back.',
  )
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The disk failed while the transaction was being committed, so it is not known yet whether it was kept.',
    { cause },
  )
}

/**
 * The transaction with which a handler writes. It stops working when its transaction ends, for any reason. It refuses
 * late statements, so they cannot become part of the connection's next transaction.
 */
export class SqliteTransaction implements StoreTransaction {
  readonly #connection: Connection
  #isEnded = false
  #reason: unknown

  constructor(connection: Connection) {
    this.#connection = connection
  }

  get raw(): DatabaseSync {
    // The connection may already serve another transaction.
    if (this.#isEnded) throw this.#reason ?? over()
    // The store opened a handler's connection itself.
    return this.#connection.db as DatabaseSync
  }

  async query(sql: string, params: readonly unknown[] = []): Promise<QueryResult> {
    if (this.#isEnded) throw this.#reason ?? over()
    // The handler must not end the transaction: its job would no longer end together with its data.
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

  /** Refuses all later statements with this error. Without a reason, each late statement creates its own error. */
  end(reason?: unknown): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#reason = reason
  }
}

/** SQLite has no booleans. All other values are bound unchanged; the driver refuses unsupported ones. */
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
