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
  /** What goes out with the next statement. */
  #riding: string[] = []
  /** How many savepoints there were. */
  #part = 0
  #open = false
  #over: { readonly reason: unknown } | undefined
  #committing = false
  #lost = false
  /** The first error of the work's own statements. */
  failure: unknown
  /** The error of a statement that may only have failed because it had been prepared. */
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

  /** The connection, with BEGIN sent, and all else that rides with the next statement. */
  #begunClient(): PoolClient {
    const riding = this.#takeRiding()
    // Its failure shows in the statement after it.
    if (riding.length > 0) {
      this.#client.query(riding.map(({ text }) => text).join('; ')).catch(() => undefined)
    }
    return this.#client
  }

  /** What has to be sent before the next statement. */
  #takeRiding(): readonly EncodedStep[] {
    this.throwIfOver()
    const riding = this.#riding.map((text): EncodedStep => ({ text }))
    this.#riding = []
    if (!this.#begun) {
      this.#begun = true
      riding.unshift(begin)
    }
    return riding
  }

  /** Sends steps in one packet, behind what rides with them; answers what the one at `main` said. */
  #send(steps: readonly Step[], main: number): Promise<PgResult> {
    const encoded = steps.map(encodeStep)
    const content = { riding: this.#takeRiding(), steps: encoded, main }
    return sendPacket(this.#client, this.#connections.preparedOn(this.#client), content)
  }

  /** The work's own statement, which is prepared if it comes often. */
  async #ask(text: string, values: readonly unknown[]): Promise<PgResult> {
    const names = this.#connections.statementNames
    try {
      return await this.#send([{ text, values, name: names.of(text) }], 0)
    } catch (error) {
      if (!(error instanceof PacketFailure)) throw error
      this.#noteUnprepared(error)
      if (error.wasPrepared && isOfItsForm(error.cause)) {
        names.forget(text)
        this.#outdated = error.cause
      }
      throw error.cause
    }
  }

  #noteUnprepared({ cause }: PacketFailure): void {
    if (this.#connections.noteUnprepared(cause)) this.#outdated = cause
  }

  /** Whether trying the transaction again is all that is wanted. */
  canBeTriedAgain(error: unknown): boolean {
    return isConflict(error) || (error !== undefined && error === this.#outdated)
  }

  async run(work: (tx: StoreTransaction) => Promise<Verdict>): Promise<Verdict> {
    this.#open = true
    // A separate object for each work, so that work that was given up cannot write into the next one's savepoint.
    const hand = { open: true }
    try {
      const verdict = await work(this.#transaction(hand))
      this.throwIfOver()
      if (this.#begun && statusOf(this.#client) === 'I' && !this.#lost && this.#answered) {
        throw new SignalboxError(
          'transaction_required',
          'The work ended its transaction by itself (COMMIT or ROLLBACK through tx.raw), so its job cannot end in it.',
        )
      }
      // It swallowed the error of a statement, and with it the transaction has failed.
      if (this.failure !== undefined && statusOf(this.#client) === 'E') throw this.failure
      return verdict
    } finally {
      this.#open = false
      hand.open = false
    }
  }

  /** Some statement of the work was answered, so the connection's status is that of this transaction. */
  #answered = false

  #transaction(hand: { readonly open: boolean }): StoreTransaction {
    const query = async (sql: string, params: readonly unknown[] = []): Promise<QueryResult> => {
      this.#mustBeOpen(hand)
      try {
        // Without parameters it may be several statements, which only the driver's simple way takes.
        const answer = await (params.length > 0
          ? this.#ask(sql, params)
          : inOnePacket(this.#client, () => this.#begunClient().query(sql)))
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
        session.#mustBeOpen(hand)
        return session.#begunClient()
      },
    }
  }

  #mustBeOpen(hand: { readonly open: boolean }): void {
    if (this.#open && hand.open) return
    throw new SignalboxError(
      'closed',
      'This transaction is over: its work has returned. Await every statement before returning.',
    )
  }

  /** Begins a part that can be undone alone. Each savepoint has its own name: undoing one never reaches into another. */
  savepoint(): void {
    this.failure = undefined
    this.#part++
    this.#riding.push(`SAVEPOINT ${this.#savepointName}`)
  }

  release(): void {
    this.#riding.push(`RELEASE SAVEPOINT ${this.#savepointName}`)
  }

  /** Undoes the part begun last. */
  async undo(): Promise<void> {
    this.failure = undefined
    const name = this.#savepointName
    if (this.#riding.at(-1) === `SAVEPOINT ${name}`) {
      // It was never sent, so nothing came after it.
      this.#riding.pop()
      return
    }
    await bounded(this.#client.query(`ROLLBACK TO SAVEPOINT ${name}; RELEASE SAVEPOINT ${name}`))
  }

  get #savepointName(): string {
    return `signalbox_${this.#part}`
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
      // Behind an ack that failed COMMIT was not looked at: the transaction is still to be rolled back.
      if (error instanceof PacketFailure && error.at < ack.length) throw refused(cause)
      throw this.canBeTriedAgain(cause) ? conflict(cause) : cause
    }
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
    // The connection was gone before COMMIT was sent: certainly nothing was kept. What looks like it and is not ours,
    // such as a provider that refused a connection, is the work's own error.
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

  /** Ends it; answers whether the connection may be used again. */
  close(): boolean {
    this.#client.off('error', this.#lose).off('end', this.#lose)
    const isClean = !this.#begun && !this.#lost && !this.#over && statusOf(this.#client) === 'I'
    // A polite end would wait for running statements.
    if (!isClean) (this.#client as unknown as { connection: Connection }).connection.stream.destroy()
    return isClean
  }
}

type PgResult = Awaited<ReturnType<typeof sendPacket>>

// Said outright: the fence needs statements that see what was committed before them, whatever the default is.
const begin: EncodedStep = { name: 'signalbox begin', text: 'BEGIN ISOLATION LEVEL READ COMMITTED' }
const commit: Step = { name: 'signalbox commit', text: 'COMMIT' }

/**
 * Whether the server found fault with the statement itself, not with what it did. One that was prepared keeps the types
 * that it was parsed with; since then its tables may have changed.
 */
function isOfItsForm(error: unknown): boolean {
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
