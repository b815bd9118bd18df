import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../../jobs/index.ts'
import { decodeToken } from '../../token.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import {
  finalValues,
  givenValues,
  leaseLostState,
  noLeaseState,
  type Sealed,
  type SettleStatements,
  verdictValues,
} from '../jobs/settle.ts'
import type { Connections } from './connection.ts'
import { isConnectionLoss, leaseLost, sqlState, toStoreError } from './failures.ts'
import type { Step } from './packet.ts'
import { conflict, Session } from './session.ts'

/** What became of one of several works; undefined when it was committed. */
type Outcome = undefined | { readonly error: unknown }

/**
 * Transactions of the store's own, in which a handler's work and its job's end commit together. The connection is
 * pipelined: BEGIN rides with the first statement of the work, the ack with COMMIT, so a transaction with one statement
 * costs two round trips, and two answers. That is safe because an ack that does not take is an error, and behind an
 * error the server does not look at the COMMIT; its command tag is looked at all the same.
 *
 * A connection goes back to the pool only when it is idle and outside a transaction; else it is broken, and the
 * server rolls back what was open on it.
 */
export class Transactor {
  readonly #connections: Connections
  readonly #statements: SettleStatements
  readonly #space: Space

  constructor(connections: Connections, space: Space) {
    this.#connections = connections
    this.#statements = space.statements.settle
    this.#space = space
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    const verdict = await this.#inTransaction(options, async (session) => {
      const answer = await session.run(work)
      // Told before anything is sent: behind an ack that was never sent, COMMIT would take effect.
      if (decodeToken(answer.token) === undefined) throw leaseLost(answer.jobId)
      await this.#commit(session, [answer])
      return answer
    })
    this.#noteEnd(verdict)
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly Outcome[]> {
    try {
      return await this.#transactTogether(works, options)
    } catch (error) {
      if (!isSignalboxError(error, 'lease_lost') && !(error instanceof Broken)) throw error
    }
    // A lease was lost, or one of them broke the transaction for all, so nothing was kept. Each by itself, then: only
    // whoever is to blame fails.
    const outcomes: Outcome[] = []
    for (const work of works) {
      try {
        await this.transact(work, options)
        outcomes.push(undefined)
      } catch (error) {
        outcomes.push({ error })
      }
    }
    return outcomes
  }

  /** A savepoint for each work, one ack for all of them, one commit. */
  async #transactTogether(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly Outcome[]> {
    const outcomes: Outcome[] = []
    const verdicts: Verdict[] = []
    await this.#inTransaction(options, async (session) => {
      for (const work of works) {
        session.savepoint()
        try {
          const verdict = await session.run(work)
          const isAgain = verdicts.some(
            ({ jobId, token }) => jobId === verdict.jobId && token === verdict.token,
          )
          if (isAgain || decodeToken(verdict.token) === undefined) throw new NotHeld(verdict.jobId)
          verdicts.push(verdict)
          outcomes.push(undefined)
          session.release()
        } catch (error) {
          session.throwIfOver()
          if (session.lost) throw isConnectionLoss(error) ? toStoreError(error) : error
          const isOurs = error === session.failure
          // A deadlock or serialisation failure ends the whole transaction, whoever's statement met it.
          if (isOurs && ['40001', '40P01'].includes(sqlState(error) ?? '')) throw conflict(error)
          // The transaction had failed before this one's statement: a statement that somebody did not wait for.
          if (isOurs && sqlState(error) === '25P02') throw new Broken('', { cause: error })
          outcomes.push({ error: told(session, error) })
          await undo(session)
        }
      }
      await this.#commit(session, verdicts)
    }).catch((error: unknown) => {
      throw sqlState(error) === '25P02' ? new Broken('', { cause: error }) : error
    })
    for (const verdict of verdicts) this.#noteEnd(verdict)
    return outcomes
  }

  #noteEnd({ jobId, token }: Verdict): void {
    this.#space.leases.ended(decodeToken(token)!.leaseNo, jobId)
  }

  /** Ends them all and commits, or throws and neither has happened. */
  async #commit(session: Session, verdicts: readonly Verdict[]): Promise<void> {
    const sealed = verdicts.map((verdict) => ({ verdict, token: decodeToken(verdict.token)! }))
    await session.commit(sealed.length === 0 ? [] : this.#ack(sealed), (error) => {
      const state = sqlState(error)
      if (state === leaseLostState || state === noLeaseState || state === '23505') {
        return leaseLost(sealed[0]!.verdict.jobId, error)
      }
      // Behind a failed statement of the work every other fails too; the first is the reason.
      if (state === '25P02') return session.failure ?? error
      return session.canBeTriedAgain(error) ? conflict(error) : error
    })
  }

  #ack(sealed: readonly Sealed[]): readonly Step[] {
    const [first] = sealed as [Sealed]
    const { verdict, token } = first
    const { namespace, storeId, leases } = this.#space
    const job = sealed.length === 1 ? leases.find(verdict) : undefined
    const isOver = verdict.state !== 'ready' && verdict.state !== 'scheduled'
    if (job !== undefined && job.uniqueKey === null && isOver) {
      return [
        { ...this.#statements.leaseLock, values: [token.leaseNo] },
        { ...this.#statements.finalOrFail, values: finalValues(namespace, first, job) },
      ]
    }
    const values = [...verdictValues(namespace, sealed), storeId]
    if (job === undefined) return [{ ...this.#statements.someOrFail, values }]
    return [{ ...this.#statements.givenOrFail, values: [...values, ...givenValues(job)] }]
  }

  async #inTransaction<Result>(
    { timeoutMs, signal }: TransactOptions,
    work: (session: Session) => Promise<Result>,
  ): Promise<Result> {
    signal?.throwIfAborted()
    const client = await this.#connections.lend()
    const session = new Session(client, this.#connections)
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    const stop = (reason: unknown) => {
      if (session.stop(reason)) reject(reason)
    }
    const abort = () => stop(signal!.reason)
    const timer = timeoutMs > 0 ? setTimeout(() => stop(tookTooLong(timeoutMs)), timeoutMs) : undefined
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    try {
      // The work may not notice that it is over; nobody waits for it then, and all it tries is refused.
      work(session).then(resolve, reject)
      return await promise
    } catch (error) {
      throw await session.giveUp(error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.#connections.giveBack(client, session.close())
    }
  }
}

/** The transaction of a group failed through a member that did not say so. */
class Broken extends Error {}

async function undo(session: Session): Promise<void> {
  try {
    await session.undo()
  } catch (error) {
    if (sqlState(error) === undefined) throw error
    throw new Broken('', { cause: error })
  }
}

/** What one of a group is told that failed by itself. */
function told(session: Session, error: unknown): unknown {
  if (error instanceof NotHeld) return leaseLost(error.message)
  return error === session.failure && session.canBeTriedAgain(error) ? conflict(error) : error
}

/** A verdict on an attempt that another of the group has ended, or whose token cannot be one. */
class NotHeld extends Error {}

function tookTooLong(timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and nothing of it was kept. Do slow work before it, or raise transactionTimeoutMs.`,
    { details: { timeoutMs } },
  )
}
