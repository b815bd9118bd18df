import { SignalboxError } from '../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../jobs/index.ts'
import { type Connection, readNow } from './connection.ts'
import { explain, isInputOutput } from './fault.ts'
import type { Gate } from './gate.ts'
import { whenFree } from './retry.ts'
import { leaseLost, settleAll } from './settle.ts'
import { SqliteTransaction } from './tx.ts'

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
  readonly namespace: string
  open(): Connection
  /** As for the gate. */
  began(): void
  committed(): void
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

  transact(work: Work, options: TransactOptions): Promise<void> {
    return this.#within(options, async (connection, limit) => {
      const failed = await this.#attempt(connection, work, limit)
      if (failed) throw failed.error
    })
  }

  transactAll(
    works: readonly Work[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    return this.#within(options, async (connection, limit) => {
      const answers: (undefined | { error: unknown })[] = []
      for (const work of works) {
        connection.run('SAVEPOINT signalbox_part')
        const failed = await this.#attempt(connection, work, limit)
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
    { timeoutMs, signal }: TransactOptions,
    inside: (connection: Connection, limit: Limit) => Promise<Value>,
  ): Promise<Value> {
    return this.#options.gate.hold(async () => {
      const connection = await this.#begin(signal)
      const limit = new Limit(timeoutMs === 0 ? defaultTimeoutMs : timeoutMs, signal)
      this.#limit = limit
      const { closing } = this.#options.gate
      if (closing.aborted) limit.end(closing.reason)
      try {
        const value = await inside(connection, limit)
        // From here on it is only a matter of the commit, which nothing may interrupt.
        limit.stop()
        await this.#commit(connection)
        return value
      } catch (error) {
        this.#abandon(connection, limit.isOver)
        throw error
      } finally {
        limit.stop()
        this.#limit = undefined
      }
    }, signal)
  }

  async #begin(signal: AbortSignal | undefined): Promise<Connection> {
    const begin = () => {
      this.#connection ??= this.#options.open()
      this.#connection.begin()
      this.#options.began()
      return this.#connection
    }
    try {
      return await whenFree(begin, performance.now() + lockWaitMs, () => {
        signal?.throwIfAborted()
        this.#options.gate.closing.throwIfAborted()
      })
    } catch (error) {
      if (isInputOutput(error)) this.#drop()
      throw explain(error)
    }
  }

  /** One handler's work and its verdict: answers how it failed, if it did. Throws what ends the whole transaction. */
  async #attempt(
    connection: Connection,
    work: Work,
    limit: Limit,
  ): Promise<undefined | { readonly error: unknown }> {
    if (limit.isOver) throw limit.reason
    const tx = new SqliteTransaction(connection)
    limit.tx = tx
    let verdict: Verdict
    try {
      verdict = await Promise.race([work(tx), limit.ended])
    } catch (error) {
      if (limit.isOver) throw limit.reason
      tx.end()
      return { error }
    }
    tx.end()
    // SQLite rolls back by itself on some faults, and a handler may have swallowed the error that said so.
    if (!connection.db.isTransaction) throw gaveUp()
    try {
      const [took] = settleAll(connection, this.#options.namespace, [verdict], readNow(connection))
      return took ? undefined : { error: leaseLost(verdict) }
    } catch (error) {
      return { error: explain(error) }
    }
  }

  async #commit(connection: Connection): Promise<void> {
    if (!connection.db.isTransaction) throw gaveUp()
    try {
      await whenFree(() => connection.commit(), performance.now() + lockWaitMs)
    } catch (error) {
      if (!isInputOutput(error)) throw explain(error)
      this.#drop()
      throw commitUnknown(error)
    }
    this.#options.committed()
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
    const connection = this.#connection
    this.#connection = undefined
    try {
      connection?.close()
    } catch {
      // It is not used again either way.
    }
  }
}

/** The end that is put to a transaction from outside: its time is over, its signal aborted, or the store closed. */
class Limit {
  /** Rejects when the end has come. */
  readonly ended: Promise<never>
  /** Refused from then on. */
  tx: SqliteTransaction | undefined
  isOver = false
  reason: unknown
  readonly #reject: (reason: unknown) => void
  readonly #timer: ReturnType<typeof setTimeout>
  readonly #signal: AbortSignal | undefined
  readonly #abort = () => this.end(this.#signal!.reason)

  constructor(timeoutMs: number, signal: AbortSignal | undefined) {
    const { promise, reject } = Promise.withResolvers<never>()
    this.ended = promise
    // Whoever races against it may be done before: then nobody hears of it, and need not.
    promise.catch(() => {})
    this.#reject = reject
    this.#timer = setTimeout(() => this.end(tookTooLong(timeoutMs)), timeoutMs)
    this.#signal = signal
    signal?.addEventListener('abort', this.#abort)
    // It may have aborted on the way in.
    if (signal?.aborted) this.end(signal.reason)
  }

  end(reason: unknown): void {
    this.isOver = true
    this.reason = reason
    this.tx?.end(reason)
    this.#reject(reason)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#abort)
  }
}

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and was rolled back: on SQLite everybody else's writes wait for it. Do slow work before it, or raise its time-out.`,
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
