import { Connection, type PoolClient } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { QueryResult, StoreTransaction, TransactOptions, Verdict } from '../../jobs/index.ts'
import { decodeToken } from '../token.ts'
import { type Connections, statusOf } from './connection.ts'
import { isConflict, isConnectionLoss, leaseLost, sqlState, toStoreError } from './failures.ts'
import type { Leases } from './leases.ts'
import {
  finalValues,
  givenValues,
  leaseLostState,
  type Sealed,
  type SettleStatements,
  verdictValues,
} from './settle.ts'

/**
 * Transactions of the store's own, in which a handler's work and its job's end commit together. The connection is
 * pipelined: BEGIN rides with the first statement of the work, the ack with COMMIT, so a transaction with one statement
 * costs two round trips. That is safe because an ack that does not take is an error, and behind an error COMMIT rolls
 * back; its command tag is looked at all the same.
 *
 * A connection goes back to the pool only when it is idle and outside a transaction; else it is broken, and the
 * server rolls back what was open on it.
 */
export class Transactor {
  readonly #connections: Connections
  readonly #statements: SettleStatements
  readonly #leases: Leases
  readonly #namespace: string
  readonly #storeId: string

  constructor(
    connections: Connections,
    statements: SettleStatements,
    leases: Leases,
    namespace: string,
    storeId: string,
  ) {
    this.#connections = connections
    this.#statements = statements
    this.#leases = leases
    this.#namespace = namespace
    this.#storeId = storeId
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    const verdict = await this.#inTransaction(options, async (session) => {
      const answer = await session.run(work)
      // Told before anything is sent: behind an ack that was never sent, COMMIT would take effect.
      if (decodeToken(answer.token) === undefined) throw leaseLost(answer.jobId)
      const acked = this.#ack(session, answer)
      // Not waited for: COMMIT follows at once, and tells first if the connection is gone.
      acked.catch(() => undefined)
      await session.commit(acked)
      return answer
    })
    this.#noteEnd(verdict)
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    const outcomes: (undefined | { readonly error: unknown })[] = []
    const verdicts: Verdict[] = []
    await this.#inTransaction(options, async (session) => {
      for (const work of works) {
        session.savepoint()
        try {
          const verdict = await session.run(work)
          await this.#ack(session, verdict)
          verdicts.push(verdict)
          outcomes.push(undefined)
          session.release()
        } catch (error) {
          session.throwIfOver()
          if (session.lost || isConnectionLoss(error)) throw toStoreError(error)
          // A deadlock or serialisation failure ends the whole transaction, whoever's statement met it.
          if (sqlState(error) === '40001' || sqlState(error) === '40P01') throw conflict(error)
          outcomes.push({ error })
          await session.undo()
        }
      }
      await session.commit()
    })
    for (const verdict of verdicts) this.#noteEnd(verdict)
    return outcomes
  }

  #noteEnd({ jobId, token }: Verdict): void {
    this.#leases.ended(decodeToken(token)!.leaseNo, jobId)
  }

  async #ack(session: Session, verdict: Verdict): Promise<void> {
    const token = decodeToken(verdict.token)
    if (token === undefined) throw leaseLost(verdict.jobId)
    const sent = this.#sendAck(session.begun(), { verdict, token })
    try {
      await sent
    } catch (error) {
      if (sqlState(error) === leaseLostState || sqlState(error) === '23505')
        throw leaseLost(verdict.jobId, error)
      // Behind a failed statement of the work every other fails too; the first is the reason.
      if (sqlState(error) === '25P02') throw session.failure ?? error
      if (isConflict(error)) throw conflict(error)
      throw error
    }
  }

  #sendAck(client: PoolClient, sealed: Sealed): Promise<unknown> {
    const { verdict } = sealed
    const job = this.#leases.find(verdict)
    const isOver = verdict.state !== 'ready' && verdict.state !== 'scheduled'
    if (job !== undefined && job.uniqueKey === null && isOver) {
      return this.#connections.send(
        client,
        this.#statements.finalOrFail,
        finalValues(this.#namespace, sealed, job),
      )
    }
    const values = [...verdictValues(this.#namespace, [sealed]), this.#storeId]
    if (job === undefined) return this.#connections.send(client, this.#statements.someOrFail, values)
    return this.#connections.send(client, this.#statements.givenOrFail, [...values, ...givenValues(job)])
  }

  async #inTransaction<Result>(
    { timeoutMs, signal }: TransactOptions,
    work: (session: Session) => Promise<Result>,
  ): Promise<Result> {
    signal?.throwIfAborted()
    const client = await this.#connections.lend()
    const session = new Session(client)
    const { promise: over, reject } = Promise.withResolvers<never>()
    const stop = (reason: unknown) => {
      if (session.stop(reason)) reject(reason)
    }
    const abort = () => stop(signal!.reason)
    const timer = timeoutMs > 0 ? setTimeout(() => stop(tookTooLong(timeoutMs)), timeoutMs) : undefined
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    try {
      // The work may not notice that it is over; nobody waits for it then, and all it tries is refused.
      const running = work(session)
      running.catch(() => undefined)
      return await Promise.race([running, over])
    } catch (error) {
      throw await session.giveUp(error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      session.giveBack()
    }
  }
}

/** One transaction on one connection. */
class Session {
  readonly #client: PoolClient
  #begun = false
  #open = false
  #over: { readonly reason: unknown } | undefined
  #committing = false
  #lost = false
  /** The first error of the work's own statements. */
  failure: unknown
  readonly #noticeLoss = () => {
    this.#lost = true
  }

  constructor(client: PoolClient) {
    this.#client = client
    client.on('error', this.#noticeLoss)
    client.on('end', this.#noticeLoss)
  }

  get lost(): boolean {
    return this.#lost
  }

  throwIfOver(): void {
    if (this.#over) throw this.#over.reason
  }

  /** The connection, with BEGIN sent. */
  begun(): PoolClient {
    this.throwIfOver()
    if (!this.#begun) {
      this.#begun = true
      this.#send('BEGIN')
    }
    return this.#client
  }

  async run(work: (tx: StoreTransaction) => Promise<Verdict>): Promise<Verdict> {
    this.#open = true
    try {
      const verdict = await work(this.#transaction())
      this.throwIfOver()
      if (this.#begun && statusOf(this.#client) === 'I' && !this.#lost && this.#answered) {
        throw new SignalboxError(
          'transaction_required',
          'The work ended its transaction by itself (COMMIT or ROLLBACK through tx.raw), so its job cannot end in it.',
        )
      }
      return verdict
    } finally {
      this.#open = false
    }
  }

  /** Some statement of the work was answered, so the connection's status is that of this transaction. */
  #answered = false

  #transaction(): StoreTransaction {
    const query = async (sql: string, params: readonly unknown[] = []): Promise<QueryResult> => {
      if (!this.#open) {
        throw new SignalboxError(
          'closed',
          'This transaction is over: its work has returned. Await every statement before returning.',
        )
      }
      try {
        const client = this.begun()
        const answer = await (params.length > 0 ? client.query(sql, [...params]) : client.query(sql))
        this.#answered = true
        const last = Array.isArray(answer) ? answer.at(-1) : answer
        return { rows: last?.rows ?? [], rowCount: last?.rowCount ?? 0 }
      } catch (error) {
        this.failure ??= error
        if (isConnectionLoss(error)) this.#lost = true
        throw this.#over ? this.#over.reason : error
      }
    }
    const session = this
    return {
      query,
      sql: (strings, ...params) =>
        query(
          strings.reduce((text, part, nr) => `${text}$${nr}${part}`),
          params,
        ),
      get raw() {
        return session.begun()
      },
    }
  }

  savepoint(): void {
    this.begun()
    this.failure = undefined
    this.#send('SAVEPOINT signalbox')
  }

  release(): void {
    this.#send('RELEASE SAVEPOINT signalbox')
  }

  async undo(): Promise<void> {
    this.failure = undefined
    await bounded(this.#client.query('ROLLBACK TO SAVEPOINT signalbox; RELEASE SAVEPOINT signalbox'))
  }

  /** Commits; `acked` is the statement sent just before, which comes first in saying what went wrong. */
  async commit(acked: Promise<void> = Promise.resolve()): Promise<void> {
    this.throwIfOver()
    if (this.#lost) throw new Error('Connection terminated before the commit was sent')
    this.#committing = true
    const committed = this.begun().query('COMMIT')
    committed.catch(() => undefined)
    try {
      await bounded(acked)
    } catch (error) {
      if (isLoss(error)) throw this.#unknown(error)
      // An ack that failed makes COMMIT a rollback; its answer is awaited so that the connection is clean.
      await bounded(committed).catch(() => this.#noticeLoss())
      throw error
    }
    let command: string
    try {
      ;({ command } = await bounded(committed))
    } catch (error) {
      if (isLoss(error)) throw this.#unknown(error)
      throw isConflict(error) ? conflict(error) : error
    }
    if (command !== 'COMMIT') throw this.failure ?? conflict(new Error(`COMMIT was answered with ${command}`))
    this.#begun = false
  }

  #unknown(cause: unknown): SignalboxError {
    this.#lost = true
    return commitUnknown(cause)
  }

  /** Ends it from outside: true when that decides the outcome, false when COMMIT is on its way already. */
  stop(reason: unknown): boolean {
    if (this.#committing || this.#over) return false
    this.#over = { reason }
    this.#open = false
    cancelStatement(this.#client)
    return true
  }

  /** After a failure: rolls back if the connection can still be used; answers the error to throw. */
  async giveUp(error: unknown): Promise<unknown> {
    this.#open = false
    if (this.#over) return this.#over.reason
    // The connection was gone before COMMIT was sent: certainly nothing was kept.
    if (isConnectionLoss(error)) {
      this.#lost = true
      return toStoreError(error)
    }
    if (this.#begun && !this.#lost) {
      try {
        await bounded(this.#client.query('ROLLBACK'))
        this.#begun = false
      } catch {
        this.#lost = true
      }
    }
    return isConflict(error) ? conflict(error) : error
  }

  giveBack(): void {
    this.#client.off('error', this.#noticeLoss)
    this.#client.off('end', this.#noticeLoss)
    const clean = !this.#begun && !this.#lost && !this.#over && statusOf(this.#client) === 'I'
    // Ending it politely would wait for whatever is under way.
    if (!clean) (this.#client as unknown as { connection: Connection }).connection.stream.destroy()
    this.#client.release(!clean)
  }

  #send(sql: string): void {
    // Its failure shows in the statement after it.
    this.#client.query(sql).catch(() => undefined)
  }
}

/** The server did not answer a commit or rollback. */
class Unanswered extends Error {}

const answerMs = 30_000

async function bounded<Result>(answer: Promise<Result>): Promise<Result> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Unanswered('The database did not answer in time')), answerMs)
  answer.catch(() => undefined)
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

function isLoss(error: unknown): boolean {
  return error instanceof Unanswered || isConnectionLoss(error)
}

/** Asks the server to stop what the connection is doing; breaking it alone would let a long statement run on. */
function cancelStatement(client: PoolClient): void {
  const { processID, secretKey, host, port } = client as unknown as Record<string, never>
  if (!processID) return
  const canceller = new Connection({}) as unknown as {
    stream: { destroy(): void; setTimeout(ms: number, end: () => void): void }
    connect(port: unknown, host?: unknown): void
    cancel(processID: unknown, secretKey: unknown): void
    on(event: string, heard: () => void): void
  }
  canceller.on('error', () => undefined)
  canceller.on('connect', () => canceller.cancel(processID, secretKey))
  if (`${host}`.startsWith('/')) canceller.connect(`${host}/.s.PGSQL.${port}`)
  else canceller.connect(port, host)
  canceller.stream.setTimeout(2_000, () => canceller.stream.destroy())
}

function conflict(cause: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_conflict',
    'Postgres gave the transaction up (deadlock, serialisation or lock wait) and nothing of it was kept. It can be tried again.',
    { cause },
  )
}

function commitUnknown(cause: unknown): SignalboxError {
  return new SignalboxError(
    'commit_unknown',
    'The connection was lost while committing, so it is not known whether it took. Ask for the outcome of this attempt.',
    { cause },
  )
}

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and nothing of it was kept. Do slow work before it, or raise its time-out.`,
    { details: { timeoutMs } },
  )
}
