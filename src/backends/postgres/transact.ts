import type { PoolClient } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../jobs/index.ts'
import { decodeToken } from '../token.ts'
import type { Connections } from './connection.ts'
import { isConflict, isConnectionLoss, leaseLost, sqlState, toStoreError } from './failures.ts'
import type { Leases } from './leases.ts'
import { conflict, Session } from './session.ts'
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

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and nothing of it was kept. Do slow work before it, or raise its time-out.`,
    { details: { timeoutMs } },
  )
}
