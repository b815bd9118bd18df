import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../../core/errors.ts'
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
  QueueStats,
  Renewal,
  RetryAnswer,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from '../../jobs/index.ts'
import { decodeToken } from '../token.ts'
import { type AddRow, addStatements, addValues, readAdded } from './add.ts'
import { ClaimedAdder } from './addclaimed.ts'
import { Attempts } from './attempts.ts'
import { isMissing, requireTransaction, wrongDatabase } from './callertx.ts'
import { Claimer } from './claimer.ts'
import type { Connections, Runner } from './connection.ts'
import { finishStatement } from './finish.ts'
import { Leases } from './leases.ts'
import { Operations } from './operate.ts'
import { Reads } from './reads.ts'
import { type Reclaimed, Reclaimer } from './reclaim.ts'
import { givenValues, type SettledInRow, settleStatements, verdictValues } from './settle.ts'
import { Settler } from './settler.ts'
import { Transactor } from './transact.ts'

/** Jobs on Postgres: the parts put together. migrations/0001-jobs.ts says how the tables work. */
export class PostgresJobs implements JobStore {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #storeId: string
  readonly #leases = new Leases()
  readonly #adds: ReturnType<typeof addStatements>
  readonly #settles: ReturnType<typeof settleStatements>
  readonly #reclaimer: Reclaimer
  readonly #claimer: Claimer
  readonly #settler: Settler
  readonly #transactor: Transactor
  readonly #claimedAdder: ClaimedAdder
  readonly #attempts: Attempts
  readonly #reads: Reads
  readonly #operations: Operations

  constructor(connections: Connections, schema: string, namespace: string, storeId: string) {
    this.#connections = connections
    this.#namespace = namespace
    this.#storeId = storeId
    this.#adds = addStatements(schema)
    this.#settles = settleStatements(schema)
    this.#reclaimer = new Reclaimer(connections, schema, this.#leases, namespace)
    this.#claimer = new Claimer(connections, schema, namespace, this.#leases, this.#reclaimer)
    this.#settler = new Settler(
      connections,
      { ...this.#settles, finish: finishStatement(schema) },
      this.#leases,
      namespace,
    )
    this.#transactor = new Transactor(connections, this.#settles, this.#leases, namespace, storeId)
    this.#claimedAdder = new ClaimedAdder(connections, schema, namespace, this.#leases)
    this.#attempts = new Attempts(connections, schema, namespace, this.#leases)
    this.#reads = new Reads(connections, schema, namespace)
    this.#operations = new Operations(connections, schema, namespace, this.#reclaimer)
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    if (jobs.length === 0) return []
    const isUnique = jobs.some(({ uniqueKey }) => uniqueKey !== null)
    if (tx !== undefined) return this.#addIn(await requireTransaction(tx), jobs)
    const answers = isUnique ? await this.#addUnique(jobs) : await this.#addPlain(jobs)
    this.#claimer.added(jobs)
    return answers
  }

  async #addPlain(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    await this.#connections.run(this.#adds.plain, addValues(this.#namespace, jobs, null))
    return jobs.map(({ id }) => ({ id, duplicate: false }))
  }

  async #addUnique(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    for (let tries = 0; tries < 20; tries++) {
      // Several jobs are all written or none, so what cannot be answered yet is taken back and begun anew.
      const { answers, lapsed } = await this.#connections.use(async (client) => {
        const begun = client.query('BEGIN')
        begun.catch(() => undefined)
        try {
          const { rows } = await this.#connections.send<AddRow & Record<string, unknown>>(
            client,
            this.#adds.unique,
            addValues(this.#namespace, jobs, null),
          )
          const answers = readAdded(jobs, rows)
          // A holder whose lease ran out may be dead, which frees its key.
          const lapsed = tries === 0 && rows[0]!.lapsed && answers.some((answer) => answer?.duplicate)
          const isWhole = !lapsed && answers.every((answer) => answer !== undefined)
          await client.query(isWhole ? 'COMMIT' : 'ROLLBACK')
          return { answers: isWhole ? (answers as readonly Added[]) : undefined, lapsed }
        } catch (error) {
          await client.query('ROLLBACK').catch(() => undefined)
          throw error
        }
      })
      if (answers) return answers
      if (lapsed) await this.#reclaimer.reclaim(100_000)
      else await sleep(Math.min(2 ** tries, 50))
    }
    throw new SignalboxError(
      'store_busy',
      'A unique key changed hands again and again while a job was being added. Try again.',
    )
  }

  /** In the caller's transaction what was written stays; only those without an answer are asked for again. */
  async #addIn(client: Runner, jobs: readonly NewJob[]): Promise<readonly Added[]> {
    const answers: (Added | undefined)[] = jobs.map(() => undefined)
    for (let tries = 0; tries < 20; tries++) {
      const open = jobs.flatMap((job, nr) => (answers[nr] === undefined ? [{ job, nr }] : []))
      if (open.length === 0) return answers as readonly Added[]
      const some = open.map(({ job }) => job)
      const rows = await this.#inCallers(async () => {
        const values = addValues(this.#namespace, some, this.#storeId)
        return (await client.query<AddRow & Record<string, unknown>>(this.#adds.unique.text, values)).rows
      })
      if (rows.length === 0) throw wrongDatabase()
      const doubt = tries === 0 && rows[0]!.lapsed
      for (const [at, answer] of readAdded(some, rows).entries()) {
        if (answer && !(doubt && answer.duplicate)) answers[open[at]!.nr] = answer
      }
      if (doubt) await this.#reclaimer.reclaim(100_000)
      else if (tries > 0) await sleep(Math.min(2 ** tries, 50))
    }
    throw new SignalboxError(
      'store_busy',
      'A unique key changed hands again and again while a job was being added. Try again.',
    )
  }

  async settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    const client = await requireTransaction(tx)
    const token = decodeToken(verdict.token)
    if (token === undefined) return false
    const values = [...verdictValues(this.#namespace, [{ verdict, token }]), this.#storeId]
    const job = this.#leases.find(verdict)
    const row = await this.#inCallers(async () => {
      // Without a name: what is prepared on a caller's connection is the caller's business.
      const { rows } = job
        ? await client.query<SettledInRow>(this.#settles.givenIn.text, [...values, ...givenValues(job)])
        : await client.query<SettledInRow>(this.#settles.someIn.text, values)
      return rows[0]!
    })
    if (!row.here) throw wrongDatabase()
    return row.took
  }

  async #inCallers<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      throw isMissing(error) ? wrongDatabase(error) : error
    }
  }

  async addClaimed(job: NewJob, request: ClaimRequest): Promise<ClaimedRecord | undefined> {
    return this.#claimedAdder.add(job, request)
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    return this.#claimer.claim(request)
  }

  async renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    return this.#attempts.renew(leases, leaseMs)
  }

  async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    if (verdicts.length === 0) return []
    const answers = await this.#settler.settle(verdicts)
    if (verdicts.some(({ state }) => state === 'ready' || state === 'scheduled')) this.#claimer.forget()
    this.#reclaimer.sweepSoon()
    return answers
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    await this.#transactor.transact(work, options)
    this.#reclaimer.sweepSoon()
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    if (works.length === 0) return []
    const outcomes = await this.#transactor.transactAll(works, options)
    this.#reclaimer.sweepSoon()
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
    this.#claimer.forget()
    return taken
  }

  async find(id: string): Promise<JobRecord | undefined> {
    return this.#reads.find(id)
  }

  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    return this.#reads.list(query)
  }

  async cancel(id: string): Promise<CancelAnswer | undefined> {
    return this.#operations.cancel(id)
  }

  async retry(id: string): Promise<RetryAnswer | undefined> {
    const answer = await this.#operations.retry(id)
    this.#claimer.forget()
    return answer
  }

  async retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    this.#claimer.forget()
    return this.#operations.retryDead(query)
  }

  async stats(): Promise<readonly QueueStats[]> {
    return this.#reads.stats()
  }

  async pause(queue: string): Promise<void> {
    await this.#operations.pause(queue)
  }

  async resume(queue: string): Promise<void> {
    await this.#operations.resume(queue)
    this.#claimer.forget()
  }

  async prune(request: { olderThanMs: number; limit: number }): Promise<number> {
    return this.#operations.prune(request)
  }

  /** Clears away what can be at once; what fails is left to whoever reclaims later. */
  async flush(): Promise<void> {
    await this.#reclaimer.sweep().catch(() => undefined)
  }
}
