import { isSignalboxError } from '../../../core/errors.ts'
import type { StoreTransaction, TransactOptions, Verdict } from '../../../jobs/index.ts'
import { decodeToken } from '../../token.ts'
import { leaseLost, tookTooLong } from '../../transaction-errors.ts'
import {
  type DecodedVerdict,
  finishValues,
  haveFailed,
  leaseLostReason,
  type SettleStatements,
  settleStatements,
  verdictValues,
} from '../jobs/settle.ts'
import type { Space } from '../jobs/space.ts'
import type { Connections } from './connection.ts'
import { isConnectionLoss, sqlState, toStoreError } from './failures.ts'
import type { Step } from './pipeline.ts'
import { conflict, Session } from './session.ts'
import { isRefusal } from './statement.ts'

/** The outcome of one of several works. Undefined: it was committed. */
type Outcome = undefined | { readonly error: unknown }

/**
 * The store's transactions, in which a handler's work and its job's end commit together. The connection is pipelined:
 * BEGIN is sent with the first statement of the work, the ack with COMMIT. So a transaction with one statement costs
 * two round trips. This is safe because a refused ack is an error, and after an error the server skips the COMMIT. The
 * command tag is checked as well.
 *
 * A connection goes back to the pool only when it is idle and outside a transaction. Else it is destroyed, and the
 * server rolls back its open transaction.
 */
export class Transactor {
  readonly #connections: Connections
  readonly #statements: SettleStatements
  readonly #space: Space

  constructor(connections: Connections, space: Space) {
    this.#connections = connections
    this.#statements = settleStatements(space.schemaName)
    this.#space = space
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    await this.#inTransaction(options, async (session) => {
      const verdict = await session.run(work)
      // Check the token before anything is sent: without an ack, COMMIT would take effect.
      if (decodeToken(verdict.token) === undefined) throw leaseLost(verdict.jobId)
      await this.#commit(session, [verdict])
    })
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
    // One lost lease, or one failed statement, undid the transaction for all works. Run each work alone, so that only
    // the one that caused the failure fails.
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
          const isOfStatement = error === session.failure
          // A deadlock or serialisation failure ends the whole transaction, whichever work had it.
          if (isOfStatement && ['40001', '40P01'].includes(sqlState(error) ?? '')) throw conflict(error)
          // The transaction failed before this statement: an earlier work did not await a statement that failed.
          if (isOfStatement && sqlState(error) === '25P02') throw new Broken('', { cause: error })
          outcomes.push({ error: toMemberError(session, error) })
          await undo(session)
        }
      }
      await this.#commit(session, verdicts)
    }).catch((error: unknown) => {
      throw sqlState(error) === '25P02' ? new Broken('', { cause: error }) : error
    })
    return outcomes
  }

  /** Writes all verdicts and commits, or throws and does neither. */
  async #commit(session: Session, verdicts: readonly Verdict[]): Promise<void> {
    const decoded = verdicts
      .map((verdict) => ({ verdict, token: decodeToken(verdict.token)! }))
      .sort((a, b) => (a.verdict.jobId < b.verdict.jobId ? -1 : 1))
    const isBack = verdicts.some(({ state }) => state === 'ready' || state === 'scheduled')
    await session.commit(decoded.length === 0 ? [] : this.#ack(decoded), (error) => {
      const state = sqlState(error)
      if (isRefusal(error, leaseLostReason)) return leaseLost(decoded[0]!.verdict.jobId, error)
      // After a failed statement of the work, every later one fails too. The first error has the reason.
      if (state === '25P02') return session.failure ?? error
      return session.canBeTriedAgain(error) ? conflict(error) : error
    })
    if (isBack) this.#space.positions.forget()
  }

  #ack(decoded: readonly DecodedVerdict[]): readonly Step[] {
    const { byIndex, lock, settleOrFail, settleFailedOrFail, finishOrFail } = this.#statements
    const finish = finishValues(this.#space.namespace, decoded)
    if (finish !== undefined) return [byIndex, { ...finishOrFail, values: finish }]
    const values = verdictValues(this.#space.namespace, decoded)
    const settle = haveFailed(decoded) ? settleFailedOrFail : settleOrFail
    return [byIndex, { ...lock, values: values.slice(0, 2) }, { ...settle, values }]
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
      // The work may not notice that its transaction has ended. Its later statements fail, and its result is ignored.
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

/** A member of a group broke the transaction without reporting an error. */
class Broken extends Error {}

async function undo(session: Session): Promise<void> {
  try {
    await session.undo()
  } catch (error) {
    if (sqlState(error) === undefined) throw error
    throw new Broken('', { cause: error })
  }
}

/** The error for a member of a group that failed by itself. */
function toMemberError(session: Session, error: unknown): unknown {
  if (error instanceof NotHeld) return leaseLost(error.message)
  return error === session.failure && session.canBeTriedAgain(error) ? conflict(error) : error
}

/** A verdict on an attempt that another member has ended, or a malformed token. */
class NotHeld extends Error {}
