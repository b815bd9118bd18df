import type {
  Added,
  AttemptOutcome,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  JobRecord,
  JobStore,
  LeaseRef,
  ListQuery,
  NewJob,
  QueueLimits,
  QueueStats,
  ReachQuery,
  Renewal,
  RetryAnswer,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from '../../../jobs/index.ts'
import { createJobReads } from '../../sql/job-reads.ts'
import { decodeToken } from '../../token.ts'
import { Claimer } from '../claim/claimer.ts'
import { type Reclaimed, Reclaimer } from '../claim/reclaim.ts'
import {
  endTransaction,
  inCallers,
  requireTransaction,
  wrongDatabase,
} from '../connection/caller-transaction.ts'
import type { Connections } from '../connection/connection.ts'
import { sqlState } from '../connection/failures.ts'
import type { Sender } from '../connection/sender.ts'
import { Transactor } from '../connection/transact.ts'
import { ClaimedAdder } from './add-claimed.ts'
import { Adder } from './adder.ts'
import { Attempts } from './attempts.ts'
import { Settler } from './completer.ts'
import type { Space } from './namespace-memory.ts'
import { Operations } from './operate.ts'
import { Remover } from './remove.ts'
import { givenValues, leaseLostState, notHereState, verdictValues } from './settle.ts'

/** Jobs on Postgres: the parts put together. migrations/baseline-jobs.ts says how the tables work. */
export class PostgresJobs implements JobStore {
  /** One worker's go behind each other on one connection. */
  readonly claimsInOrder = true
  readonly #sender: Sender
  readonly #space: Space
  readonly #adder: Adder
  readonly #reclaimer: Reclaimer
  readonly #claimer: Claimer
  readonly #settler: Settler
  readonly #transactor: Transactor
  readonly #claimedAdder: ClaimedAdder
  readonly #attempts: Attempts
  readonly #reads: ReturnType<typeof createJobReads>
  readonly #operations: Operations
  readonly #remover: Remover

  /** `sender` runs what is not in a transaction of a handler's or a caller's. */
  constructor(connections: Connections, space: Space, sender: Sender = connections) {
    this.#sender = sender
    this.#space = space
    this.#reclaimer = new Reclaimer(sender, space)
    this.#adder = new Adder(sender, space, this.#reclaimer)
    this.#claimer = new Claimer(sender, space, this.#reclaimer)
    this.#settler = new Settler(sender, space)
    this.#transactor = new Transactor(connections, space)
    this.#claimedAdder = new ClaimedAdder(sender, space)
    this.#attempts = new Attempts(sender, space)
    this.#reads = createJobReads(space.database, space.namespace)
    this.#operations = new Operations(sender, space, this.#reclaimer)
    this.#remover = new Remover(sender, space, this.#reclaimer)
  }

  async add(
    jobs: readonly NewJob[],
    tx?: unknown,
    wakeUps: readonly string[] = [],
  ): Promise<readonly Added[]> {
    if (jobs.length === 0) return []
    if (tx !== undefined) return this.#adder.addIn(await requireTransaction(tx), jobs)
    const answers = await this.#adder.add(jobs, wakeUps)
    this.#sender.onCommit(() => this.#space.cursors.added(jobs))
    return answers
  }

  async settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    const client = await requireTransaction(tx)
    const token = decodeToken(verdict.token)
    if (token === undefined) return false
    const { namespace, storeId, leases, statements } = this.#space
    const values = [...verdictValues(namespace, [{ verdict, token }]), storeId]
    const job = leases.find(verdict)
    const { givenOrFail, someOrFail } = statements.settle
    try {
      // Without a name: what is prepared on a caller's connection is the caller's business.
      await inCallers(() =>
        job
          ? client.query(givenOrFail.text, [...values, ...givenValues(job)])
          : client.query(someOrFail.text, values),
      )
      return true
    } catch (error) {
      if (sqlState(error) === notHereState) throw wrongDatabase(error)
      if (sqlState(error) === leaseLostState) return false
      throw error
    }
  }

  endTransaction(tx: unknown, error: unknown): Promise<void> {
    return endTransaction(tx, error)
  }

  async addClaimed(job: NewJob, request: ClaimRequest): Promise<ClaimedRecord | undefined> {
    // What may not be claimed here may be added, for others.
    if (this.#space.schema.isRefusing()) return undefined
    return this.#claimedAdder.add(job, request)
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    this.#space.schema.refuse()
    return this.#claimer.claim(request)
  }

  async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    return this.#attempts.renew(leases, leaseMs)
  }

  async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    if (verdicts.length === 0) return []
    const { cursors, leases, sweeper } = this.#space
    // Looked up before, for afterwards they are no longer ours.
    const back = verdicts
      .filter(({ state }) => state === 'ready' || state === 'scheduled')
      .map((verdict) => ({ verdict, job: leases.find(verdict) }))
    const answers = await this.#settler.settle(verdicts)
    this.#sender.onCommit(() => {
      for (const { verdict, job } of back) cursors.wentBack(job, verdict)
      sweeper.soon()
    })
    return answers
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    await this.#transactor.transact(work, options)
    this.#space.sweeper.soon()
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    if (works.length === 0) return []
    const outcomes = await this.#transactor.transactAll(works, options)
    this.#space.sweeper.soon()
    return outcomes
  }

  async outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    return this.#attempts.outcomes(leases)
  }

  async cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]> {
    return this.#attempts.cancelRequests(leases)
  }

  async reclaim(limit: number): Promise<Reclaimed> {
    const taken = await this.#reclaimer.reclaim(limit)
    this.#forgetCursors()
    return taken
  }

  async find(id: string): Promise<JobRecord | undefined> {
    return this.#reads.find(id)
  }

  async reach(query: ReachQuery): Promise<string | null> {
    return this.#reads.reach(query)
  }

  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    return this.#reads.list(query)
  }

  async cancel(id: string): Promise<CancelAnswer | undefined> {
    return this.#operations.cancel(id)
  }

  async retry(id: string): Promise<RetryAnswer | undefined> {
    const answer = await this.#operations.retry(id)
    this.#forgetCursors()
    return answer
  }

  async retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    try {
      return await this.#operations.retryDead(query)
    } finally {
      // Also after a failure: some of them may have gone back.
      this.#forgetCursors()
    }
  }

  async stats(): Promise<readonly QueueStats[]> {
    return this.#reads.stats()
  }

  async pause(queue: string): Promise<void> {
    await this.#operations.pause(queue)
  }

  async resume(queue: string): Promise<void> {
    await this.#operations.resume(queue)
    this.#forgetCursors()
  }

  async setLimits(queue: string, limits: QueueLimits | null): Promise<void> {
    await this.#operations.limit(queue, limits)
    this.#forgetCursors()
  }

  async remove(ids: readonly string[]): Promise<readonly string[]> {
    const gone = await this.#remover.remove(ids)
    this.#forgetCursors()
    return gone
  }

  async prune(request: { olderThanMs: number; limit: number }): Promise<number> {
    return this.#operations.prune(request)
  }

  /** Something may have gone back in line before a remembered place. */
  #forgetCursors(): void {
    this.#sender.onCommit(() => this.#space.cursors.forget())
  }
}
