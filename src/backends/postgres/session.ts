import { Connection, type PoolClient } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { QueryResult, StoreTransaction, Verdict } from '../../jobs/index.ts'
import { inOnePacket, statusOf } from './connection.ts'
import { isConflict, isConnectionLoss, toStoreError } from './failures.ts'

/**
 * One transaction on one connection: what was sent, whether it still can be committed, and what is known when it
 * cannot. It tells apart a connection lost before COMMIT was sent (certainly nothing was kept) from one lost after
 * (nobody knows), and sees to it that no connection goes back to the pool inside a transaction.
 */
export class Session {
  readonly #client: PoolClient
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

  /** The connection, with BEGIN sent, and all else that rides with the next statement. */
  begun(): PoolClient {
    this.throwIfOver()
    if (!this.#begun) {
      this.#begun = true
      // Said outright: the fence needs statements that see what was committed before them, whatever the default is.
      this.#riding.unshift('BEGIN ISOLATION LEVEL READ COMMITTED')
    }
    if (this.#riding.length > 0) {
      // Its failure shows in the statement after it.
      this.#client.query(this.#riding.join('; ')).catch(() => undefined)
      this.#riding = []
    }
    return this.#client
  }

  /** What `send` sends goes out in one packet. */
  together<Answer>(send: () => Answer): Answer {
    return inOnePacket(this.#client, send)
  }

  async run(work: (tx: StoreTransaction) => Promise<Verdict>): Promise<Verdict> {
    this.#open = true
    // Of its own, so that a work that was given up cannot write into the savepoint of the next.
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
        const answer = await this.together(() => {
          const client = this.begun()
          return params.length > 0 ? client.query(sql, [...params]) : client.query(sql)
        })
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
        // Afterwards the connection is somebody else's.
        session.#mustBeOpen(hand)
        return session.begun()
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

  /** Begins a part that can be undone by itself. Each has a name of its own: undoing one never reaches into another. */
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

  /** Commits; `acked` is the statement sent just before, which comes first in saying what went wrong. */
  async commit(acked: Promise<void> = Promise.resolve()): Promise<void> {
    this.throwIfOver()
    if (this.#lost) throw new Error('Connection terminated before the commit was sent')
    this.#committing = true
    const committed = this.begun().query('COMMIT')
    committed.catch(() => undefined)
    const late = createDeadline()
    try {
      const command = await this.#answers(acked, committed, late.promise)
      if (command !== 'COMMIT')
        throw this.failure ?? conflict(new Error(`COMMIT was answered with ${command}`))
      this.#begun = false
    } finally {
      late.clear()
    }
  }

  /** The command tag of the commit; throws what went wrong, the ack's trouble first. */
  async #answers(
    acked: Promise<void>,
    committed: Promise<{ readonly command: string }>,
    late: Promise<never>,
  ): Promise<string> {
    try {
      await Promise.race([acked, late])
    } catch (error) {
      if (isLoss(error)) throw this.#unknown(error)
      // An ack that failed makes COMMIT a rollback; its answer is awaited so that the connection is clean.
      await Promise.race([committed, late]).catch(() => this.#noticeLoss())
      throw error
    }
    try {
      return (await Promise.race([committed, late])).command
    } catch (error) {
      if (isLoss(error)) throw this.#unknown(error)
      throw isConflict(error) ? conflict(error) : error
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
    return isConflict(error) && error === this.failure ? conflict(error) : error
  }

  /** Ends it; answers whether the connection may be used again. */
  close(): boolean {
    this.#client.off('error', this.#noticeLoss)
    this.#client.off('end', this.#noticeLoss)
    const isClean = !this.#begun && !this.#lost && !this.#over && statusOf(this.#client) === 'I'
    // Ending it politely would wait for whatever is under way.
    if (!isClean) (this.#client as unknown as { connection: Connection }).connection.stream.destroy()
    return isClean
  }
}

/** The server did not answer a commit or rollback. */
class Unanswered extends Error {}

const answerMs = 30_000

interface Deadline {
  /** Rejects when the time is over. */
  readonly promise: Promise<never>
  clear(): void
}

function createDeadline(): Deadline {
  const { promise, reject } = Promise.withResolvers<never>()
  promise.catch(() => undefined)
  const timer = setTimeout(() => reject(new Unanswered('The database did not answer in time')), answerMs)
  return { promise, clear: () => clearTimeout(timer) }
}

async function bounded<Result>(answer: Promise<Result>): Promise<Result> {
  const late = createDeadline()
  answer.catch(() => undefined)
  try {
    return await Promise.race([answer, late.promise])
  } finally {
    late.clear()
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

export function conflict(cause: unknown): SignalboxError {
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
