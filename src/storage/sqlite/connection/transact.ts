import { SignalboxError } from '../../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../../jobs/index.ts'
import { leaseLost, settleOne } from '../jobs/settle.ts'
import type { Gate } from '../writing/write-queue.ts'
import type { Connection } from './connection.ts'
import { explain, isBusy, isInputOutput } from './failures.ts'
import { SqliteTransaction } from './handler-transaction.ts'
import { untilFree } from './retry.ts'

/**
 * A handler's writes and its job's end in one commit. It holds the gate from BEGIN IMMEDIATE to COMMIT, so one at a
 * time is inside, on a connection that only these use and that handlers see as `tx.raw`.
 *
 * The gate is never held hostage: when the time is over, the transaction is rolled back at once, and the connection,
 * which the handler may still have in its hand, is closed and replaced by a fresh one.
 */
type Work = (tx: StoreTransaction) => Promise<Verdict>

export interface TransactionsOptions {
  readonly gate: Gate
  open(): Connection
  /** As for the gate. */
  began(connection: Connection): void
}

/** The engine's own bound: everybody else's writes wait meanwhile. */
const defaultTimeoutMs = 5_000
/** How long BEGIN and COMMIT may find the file in another process's hands. */
const lockWaitMs = 5_000

export class Transactions {
  readonly #options: TransactionsOptions
  #connection: Connection | undefined
  /** Of the transaction that is in, if one is. */
  #limit: Limit | undefined

  constructor(options: TransactionsOptions) {
    this.#options = options
    const { closing } = options.gate
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

  /** From BEGIN to COMMIT. */
  #within<Value>(
    { timeoutMs, leaseMs, signal }: TransactOptions,
    inside: (connection: Connection, limit: Limit) => Promise<Value>,
  ): Promise<Value> {
    const { gate } = this.#options
    const check = () => {
      signal?.throwIfAborted()
      gate.closing.throwIfAborted()
    }
    const transaction = async (): Promise<Value> => {
      // Hardly ever is another process in the way; what it costs to wait is paid only then.
      const connection = this.#begin() ?? (await untilFree(() => this.#begin(), lockWaitMs, check))
      const limit = new Limit(timeoutMs === 0 ? ownLimitMs(leaseMs) : timeoutMs)
      this.#limit = limit
      // While it was taking the lock, nobody could interrupt it yet.
      if (signal?.aborted) limit.end(signal.reason)
      if (gate.closing.aborted) limit.end(gate.closing.reason)
      try {
        const value = await inside(connection, limit)
        // From here on it is only a matter of the commit, which nothing may interrupt.
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
    return gate.hold(transaction, signal, (reason) => this.#limit?.end(reason))
  }

  /** Undefined when another process has the file. */
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

  /** One handler's work and its verdict: answers how it failed, if it did. Throws what ends the whole transaction. */
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
    // SQLite rolls back by itself on some faults, and a handler may have swallowed the error that said so.
    if (!connection.db.isTransaction) throw gaveUp()
    try {
      return settleOne(connection, namespace, verdict) ? undefined : { error: leaseLost(verdict) }
    } catch (error) {
      return { error: explain(error) }
    }
  }

  /** Undefined when another process is in the way. */
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

  /** Rolls back. A connection that its handler may still use, or that cannot roll back, is not used again. */
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

/** The end that is put to a transaction from outside: its time is over, its signal aborted, or the store closed. */
class Limit {
  isOver = false
  reason: unknown
  readonly #timer: ReturnType<typeof setTimeout>
  #tx: SqliteTransaction | undefined
  #reject: ((reason: unknown) => void) | undefined

  constructor(timeoutMs: number) {
    this.#timer = setTimeout(() => this.end(tookTooLong(timeoutMs)), timeoutMs)
  }

  /** What `work` comes to, or the end if that comes first: then its `tx` is refused from there on. */
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

/** Renewals wait for whoever is inside, so nobody may be for longer than a third of the lease. */
function ownLimitMs(leaseMs = Number.POSITIVE_INFINITY): number {
  return Math.max(1, Math.min(defaultTimeoutMs, Math.floor(leaseMs / 3)))
}

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and was rolled back: on SQLite everybody else's writes wait for it. Do slow work before it, or raise transactionTimeoutMs.`,
    { details: { timeoutMs } },
  )
}

function gaveUp(): SignalboxError {
  return new SignalboxError(
    'transaction_conflict',
    'SQLite ended this transaction before it was committed, after an error of one of its statements; nothing of it was kept.',
  )
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The disk failed while the transaction was being committed, so it is not known yet whether it was kept.',
    { cause },
  )
}
