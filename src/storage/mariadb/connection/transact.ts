import { SignalboxError } from '../../../core/errors.ts'
import type { QueryResult, StoreTransaction, TransactOptions, Verdict } from '../../../jobs/index.ts'
import { leaseLost, tookTooLong } from '../../transaction-errors.ts'
import type { Store } from '../engine-store.ts'
import { type AckOptions, decodeAckAnswer, encodeAck } from '../jobs/ack.ts'
import { callMs } from './connection.ts'
import { errnoOf, isConflict, isLost, toStoreError } from './failures.ts'
import type { Link } from './pool.ts'

/**
 * The store's transactions, for users' statements and the verdict that ends their job.
 *
 *     SAVEPOINT signalbox_tx │ the user's statements │ ack, COMMIT and SAVEPOINT signalbox_tx, in one packet
 *
 * The sessions have autocommit off, so the savepoint begins the transaction. It touches nothing and blocks nothing, so
 * the last packet sets it for the next transaction on the connection, which then costs one round trip less. At the end
 * it also shows whether this is still the same transaction: a deadlock, a COMMIT or a DDL statement removes it. The ack
 * releases it first, so it then fails instead of committing only the second half. If `work` swallowed the error of a
 * statement that MariaDB gave up (deadlock, lock wait), the transaction is refused as well.
 *
 * Before the last packet is sent, nothing can be committed. While it is sent but unanswered, the outcome is unknown.
 */
type Work = (tx: StoreTransaction) => Promise<Verdict>

/** The time limit for a connection: other transactions may be long. */
const acquireMs = 30_000
/** The time limit for the end. A lock wait of the ack on these sessions ends earlier. */
const endMs = 15_000

export async function transact(store: Store, work: Work, options: TransactOptions): Promise<void> {
  await inTransaction(store, options, async (link, beyondReturn) => {
    const transaction = new HandlerTransaction(link)
    const verdict = await transaction.work(work)
    // Now only the answer to the COMMIT counts; a timeout could not know the outcome.
    beyondReturn()
    await writeAck(store, link, verdict, { commit: 'signalbox_tx' })
  })
}

export async function transactAll(
  store: Store,
  works: readonly Work[],
  options: TransactOptions,
): Promise<readonly (undefined | { readonly error: unknown })[]> {
  if (works.length === 0) return []
  const answers: (undefined | { readonly error: unknown })[] = []
  await inTransaction(store, options, async (link, beyondReturn) => {
    for (const work of works) answers.push(await one(store, link, work))
    beyondReturn()
    await end(
      link,
      'BEGIN NOT ATOMIC RELEASE SAVEPOINT signalbox_tx; COMMIT; SAVEPOINT signalbox_tx; END',
      [],
    )
  })
  return answers
}

/** Runs one of several works in its own savepoint. Throws if the whole transaction is lost. */
async function one(store: Store, link: Link, work: Work): Promise<undefined | { readonly error: unknown }> {
  await ask(link, 'SAVEPOINT signalbox_one')
  try {
    const verdict = await new HandlerTransaction(link).work(work)
    await writeAck(store, link, verdict, {})
    return undefined
  } catch (error) {
    if (link.lost) throw lostBefore(error)
    try {
      await link.ask('ROLLBACK TO SAVEPOINT signalbox_one', [], performance.now() + callMs)
    } catch (gone) {
      // A deadlock, or a statement that committed, removed the savepoint, and with it the other works' results.
      throw errnoOf(gone) === 1305 ? conflict(error) : lostBefore(gone)
    }
    return { error }
  }
}

/** Runs `body` on a connection in a transaction. After an error, nothing of it remains on the connection. */
async function inTransaction(
  store: Store,
  { timeoutMs, signal }: TransactOptions,
  body: (link: Link, beyondReturn: () => void) => Promise<void>,
): Promise<void> {
  signal?.throwIfAborted()
  const stopped = Promise.withResolvers<never>()
  stopped.promise.catch(() => undefined)
  let link: Link | undefined
  const stop = (reason: unknown) => {
    // The only way to end a running statement: the server rolls back when the connection is closed.
    link?.destroy()
    stopped.reject(reason)
  }
  const abort = () => stop(signal!.reason)
  signal?.addEventListener('abort', abort)
  const timer = timeoutMs > 0 ? setTimeout(() => stop(tookTooLong(timeoutMs)), timeoutMs) : undefined
  const beyondReturn = () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }

  try {
    const acquired = store.users.acquire(performance.now() + acquireMs, 'transaction')
    try {
      link = await Promise.race([acquired, stopped.promise])
    } catch (error) {
      acquired.then(
        (late) => store.users.release(late),
        () => undefined,
      )
      throw isLost(error) || errnoOf(error) !== undefined ? toStoreError(error, 'begin a transaction') : error
    }
    await Promise.race([run(link, (begun) => body(begun, beyondReturn)), stopped.promise])
    store.users.release(link)
  } catch (error) {
    if (link !== undefined) await giveBack(store, link)
    throw error
  } finally {
    beyondReturn()
  }
}

/** Runs from the savepoint to the packet that sets the next one. */
async function run(link: Link, body: (link: Link) => Promise<void>): Promise<void> {
  if (!link.begun) await ask(link, 'SAVEPOINT signalbox_tx')
  link.begun = false
  await body(link)
  link.begun = true
}

async function giveBack(store: Store, link: Link): Promise<void> {
  try {
    if (!link.lost) await link.ask('ROLLBACK', [], performance.now() + 2_000)
    store.users.release(link)
  } catch {
    store.users.discard(link)
  }
}

/** The transaction object that a handler uses while it runs. */
class HandlerTransaction {
  readonly #link: Link
  #isOver = false
  #givenUp: unknown

  constructor(link: Link) {
    this.#link = link
  }

  /** Runs the work and returns its verdict. Throws unless the transaction can still be committed. */
  async work(work: Work): Promise<Verdict> {
    const link = this.#link
    const query = (sql: string, params?: readonly unknown[]) => this.#query(sql, params)
    const transaction = this
    const tx: StoreTransaction = {
      query,
      sql: (strings, ...params) => query(strings.join('?'), params),
      get raw() {
        // The connection may already serve another transaction.
        transaction.#mustBeOpen()
        return link.raw
      },
    }
    let verdict: Verdict
    try {
      verdict = await work(tx)
    } catch (error) {
      if (isConflict(error)) throw conflict(error)
      if (link.lost && isLost(error)) throw lostBefore(error)
      throw error
    } finally {
      this.#isOver = true
    }
    if (this.#givenUp !== undefined) throw conflict(this.#givenUp)
    if (link.lost) throw lostBefore(undefined)
    return verdict
  }

  #mustBeOpen(): void {
    if (!this.#isOver) return
    throw new SignalboxError(
      'closed',
      'This transaction is over. Await every statement before the handler returns.',
    )
  }

  async #query(sql: string, params: readonly unknown[] = []): Promise<QueryResult> {
    this.#mustBeOpen()
    try {
      const [answer] = await this.#link.raw.query(sql, [...params])
      if (Array.isArray(answer)) {
        const rows = answer as unknown as Record<string, unknown>[]
        return { rows, rowCount: rows.length }
      }
      return { rows: [], rowCount: (answer as { affectedRows?: number }).affectedRows ?? 0 }
    } catch (error) {
      if (isConflict(error)) this.#givenUp ??= error
      if (isLost(error)) this.#link.destroy()
      throw error
    }
  }
}

async function writeAck(
  store: Store,
  link: Link,
  verdict: Verdict,
  options: Pick<AckOptions, 'commit'>,
): Promise<void> {
  const ack = encodeAck(store, verdict, { ...options, cancelRequested: 'look', foreign: false })
  if (ack === undefined) throw leaseLost(verdict.jobId)
  const answer =
    options.commit !== undefined ? end(link, ack.sql, ack.values) : ask(link, ack.sql, ack.values)
  if (decodeAckAnswer(await answer) !== 'took') throw leaseLost(verdict.jobId)
}

/** Sends a packet that commits. If its answer is lost, the outcome is unknown. */
async function end(link: Link, sql: string, values: readonly unknown[]): Promise<unknown> {
  if (link.lost) throw lostBefore(undefined)
  try {
    return await link.ask(sql, values, performance.now() + endMs)
  } catch (error) {
    if (link.lost) {
      throw new SignalboxError(
        'commit_unknown',
        'The connection to MariaDB was lost while committing. The outcome of the attempt shows whether the commit succeeded.',
        { cause: error },
      )
    }
    throw refused(error)
  }
}

/** Runs one of the store's statements before the commit. */
async function ask(link: Link, sql: string, values: readonly unknown[] = []): Promise<unknown> {
  try {
    return await link.ask(sql, values, performance.now() + endMs)
  } catch (error) {
    throw link.lost ? lostBefore(error) : refused(error)
  }
}

function refused(error: unknown): unknown {
  if (isConflict(error) || errnoOf(error) === 1305) return conflict(error)
  return toStoreError(error, 'write the verdict')
}

function conflict(cause: unknown): SignalboxError {
  const why =
    errnoOf(cause) === 1305
      ? 'The transaction was ended inside: by a deadlock whose error was swallowed, by COMMIT or ROLLBACK, or by a statement that commits (DDL)'
      : `MariaDB gave the transaction up (${cause instanceof Error ? cause.message : cause})`
  return new SignalboxError('transaction_conflict', `${why}. Nothing more was kept; it can be tried again.`, {
    cause,
  })
}

function lostBefore(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'The connection to MariaDB was lost inside the transaction, before its commit. Nothing was kept.',
    cause === undefined ? {} : { cause },
  )
}
