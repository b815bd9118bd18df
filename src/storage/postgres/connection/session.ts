import { Connection, type PoolClient } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import type { QueryResult, StoreTransaction, Verdict } from '../../../jobs/index.ts'
import type { Connections } from './connection.ts'
import { isConflict, isConnectionLoss, sqlState, toStoreError } from './failures.ts'
import {
  type EncodedStep,
  encodeStep,
  inOnePacket,
  PacketFailure,
  type Step,
  sendPacket,
  statusOf,
} from './pipeline.ts'

/**
 * One transaction on one connection: the sent statements, whether it can still be committed, and the outcome when it
 * cannot. A connection lost before COMMIT was sent has certainly written nothing; one lost after it leaves the outcome
 * unknown. A connection never returns to the pool inside a transaction.
 */
export class Session {
  readonly #client: PoolClient
  readonly #connections: Connections
  #begun = false
  /** Statements that go out before the next one. */
  #queued: string[] = []
  /** The number of savepoints so far. */
  #savepointCount = 0
  #open = false
  #over: { readonly reason: unknown } | undefined
  #committing = false
  #lost = false
  /** The first error of a statement of the work. */
  failure: unknown
  /** The error of a prepared statement that may have failed only because it was prepared. */
  #outdated: unknown

  constructor(client: PoolClient, connections: Connections) {
    this.#client = client
    this.#connections = connections
    client.on('error', this.#lose).on('end', this.#lose)
  }

  readonly #lose = (): void => {
    this.#lost = true
  }

  get lost(): boolean {
    return this.#lost
  }

  throwIfOver(): void {
    if (this.#over) throw this.#over.reason
  }

  /** The connection, after sending BEGIN and all queued statements. */
  #clientInTransaction(): PoolClient {
    const prelude = this.#takePrelude()
    // If one of these fails, the next statement fails too.
    if (prelude.length > 0) {
      this.#client.query(prelude.map(({ text }) => text).join('; ')).catch(() => undefined)
    }
    return this.#client
  }

  /** Takes the statements that go out before the next one. */
  #takePrelude(): readonly EncodedStep[] {
    this.throwIfOver()
    const prelude = this.#queued.map((text): EncodedStep => ({ text }))
    this.#queued = []
    if (!this.#begun) {
      this.#begun = true
      prelude.unshift(begin)
    }
    return prelude
  }

  /** Sends the prelude and the steps in one packet. Answers the result of the step at `main`. */
  #send(steps: readonly Step[], main: number): Promise<PgResult> {
    const encoded = steps.map(encodeStep)
    const content = { prelude: this.#takePrelude(), steps: encoded, main }
    return sendPacket(this.#client, this.#connections.preparedOn(this.#client), content)
  }

  /** Runs a statement of the work, and prepares it if it repeats. */
  async #runPrepared(text: string, values: readonly unknown[]): Promise<PgResult> {
    const names = this.#connections.statementNames
    try {
      return await this.#send([{ text, values, name: names.of(text) }], 0)
    } catch (error) {
      if (!(error instanceof PacketFailure)) throw error
      this.#noteUnprepared(error)
      if (error.wasPrepared && isStatementError(error.cause)) {
        names.forget(text)
        this.#outdated = error.cause
      }
      throw error.cause
    }
  }

  #noteUnprepared({ cause }: PacketFailure): void {
    if (this.#connections.noteUnprepared(cause)) this.#outdated = cause
  }

  /** Whether the same transaction may succeed if it is repeated. */
  canBeTriedAgain(error: unknown): boolean {
    return isConflict(error) || (error !== undefined && error === this.#outdated)
  }

  async run(work: (tx: StoreTransaction) => Promise<Verdict>): Promise<Verdict> {
    this.#open = true
    // A separate object for each work, so that work that was given up cannot write into the next one's savepoint.
    const access = { open: true }
    try {
      const verdict = await work(this.#transaction(access))
      this.throwIfOver()
      if (this.#begun && statusOf(this.#client) === 'I' && !this.#lost && this.#answered) {
        throw new SignalboxError(
          'transaction_required',
          'The work ended its transaction by itself (COMMIT or ROLLBACK through tx.raw), so its job cannot end in it.',
        )
      }
      // The work caught the error of a statement, but the transaction has failed.
      if (this.failure !== undefined && statusOf(this.#client) === 'E') throw this.failure
      return verdict
    } finally {
      this.#open = false
      access.open = false
    }
  }

  /** A statement of the work was answered, so the status of the connection is that of this transaction. */
  #answered = false

  #transaction(access: { readonly open: boolean }): StoreTransaction {
    const query = async (sql: string, params: readonly unknown[] = []): Promise<QueryResult> => {
      this.#requireOpen(access)
      try {
        // A text without parameters may have several statements, which only the simple protocol accepts.
        const answer = await (params.length > 0
          ? this.#runPrepared(sql, params)
          : inOnePacket(this.#client, () => this.#clientInTransaction().query(sql)))
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
        // The connection may already serve another transaction.
        session.#requireOpen(access)
        return session.#clientInTransaction()
      },
    }
  }

  #requireOpen(access: { readonly open: boolean }): void {
    if (this.#open && access.open) return
    throw new SignalboxError(
      'closed',
      'This transaction is over: its work has returned. Await every statement before returning.',
    )
  }

  /**
   * Begins a part that can be rolled back alone. Each savepoint has a unique name, so a rollback affects only its part.
   */
  savepoint(): void {
    this.failure = undefined
    this.#savepointCount++
    this.#queued.push(`SAVEPOINT ${this.#savepointName}`)
  }

  release(): void {
    this.#queued.push(`RELEASE SAVEPOINT ${this.#savepointName}`)
  }

  /** Rolls back the last part. */
  async undo(): Promise<void> {
    this.failure = undefined
    const name = this.#savepointName
    if (this.#queued.at(-1) === `SAVEPOINT ${name}`) {
      // The savepoint was never sent, so no statement followed it.
      this.#queued.pop()
      return
    }
    await bounded(this.#client.query(`ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`))
  }

  get #savepointName(): string {
    return `signalbox_${this.#savepointCount}`
  }

  /** Sends the steps of the ack and COMMIT behind them; `refused` says what an error of the ack means. */
  async commit(ack: readonly Step[], refused: (error: unknown) => unknown): Promise<void> {
    this.throwIfOver()
    if (this.#lost) throw new Error('Connection terminated before the commit was sent')
    this.#committing = true
    try {
      const { command } = await bounded(this.#send([...ack, commit], ack.length))
      if (command !== 'COMMIT')
        throw this.failure ?? conflict(new Error(`COMMIT was answered with ${command}`))
      this.#begun = false
    } catch (error) {
      if (error instanceof PacketFailure) this.#noteUnprepared(error)
      const cause = error instanceof PacketFailure ? error.cause : error
      if (isLoss(cause)) throw this.#unknown(cause)
      // The server skipped COMMIT after a failed ack: the transaction must be rolled back.
      if (error instanceof PacketFailure && error.at < ack.length) throw refused(cause)
      throw this.canBeTriedAgain(cause) ? conflict(cause) : cause
    }
  }

  #unknown(cause: unknown): SignalboxError {
    this.#lost = true
    return commitUnknown(cause)
  }

  /** Ends the transaction from outside. True: it will roll back. False: it has ended, or COMMIT was sent already. */
  stop(reason: unknown): boolean {
    if (this.#committing || this.#over) return false
    this.#over = { reason }
    this.#open = false
    cancelStatement(this.#client)
    return true
  }

  /** After a failure: rolls back if the connection still works. Answers the error to throw. */
  async giveUp(error: unknown): Promise<unknown> {
    this.#open = false
    if (this.#over) return this.#over.reason
    // The connection was lost before COMMIT was sent, so nothing was written. If this connection works, a similar error
    // is the work's own, for example of another service that refused a connection.
    if (this.#lost && isConnectionLoss(error)) return toStoreError(error)
    if (this.#begun && !this.#lost) {
      try {
        await bounded(this.#client.query('ROLLBACK'))
        this.#begun = false
      } catch {
        this.#lost = true
      }
    }
    return error === this.failure && this.canBeTriedAgain(error) ? conflict(error) : error
  }

  /** Ends the session. Answers whether the connection may be used again. */
  close(): boolean {
    this.#client.off('error', this.#lose).off('end', this.#lose)
    const isClean = !this.#begun && !this.#lost && !this.#over && statusOf(this.#client) === 'I'
    // `end()` would wait for running statements.
    if (!isClean) (this.#client as unknown as { connection: Connection }).connection.stream.destroy()
    return isClean
  }
}

type PgResult = Awaited<ReturnType<typeof sendPacket>>

// Explicit, whatever the default is: the fence needs statements that see everything committed before them.
const begin: EncodedStep = { name: 'signalbox begin', text: 'BEGIN ISOLATION LEVEL READ COMMITTED' }
const commit: Step = { name: 'signalbox commit', text: 'COMMIT' }

/**
 * Whether the error is about the form of the statement, not about its effect. A prepared statement keeps the types with
 * which it was parsed, and its tables may have changed since.
 */
function isStatementError(error: unknown): boolean {
  const state = sqlState(error) ?? ''
  return state === '0A000' || state.startsWith('42')
}

/** The server did not answer a commit or rollback. */
class Unanswered extends Error {}

const answerMs = 30_000

function bounded<Result>(answer: Promise<Result>): Promise<Result> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Unanswered('The database did not answer in time')), answerMs)
    answer.then(
      (result) => {
        clearTimeout(late)
        resolve(result)
      },
      (error: unknown) => {
        clearTimeout(late)
        reject(error)
      },
    )
  })
}

function isLoss(error: unknown): boolean {
  return error instanceof Unanswered || isConnectionLoss(error)
}

/** Asks the server to cancel the running statement: if only the socket closed, a long statement would continue. */
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

export function conflict(cause: unknown): SignalboxError {
  return new SignalboxError(
    'transaction_conflict',
    'Postgres gave the transaction up (deadlock, serialisation, lock wait, or a table that was altered) and rolled it back. Try again.',
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
