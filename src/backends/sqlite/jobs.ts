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
import { addJobs } from './add.ts'
import { type Home, writeInCallers } from './callertx.ts'
import { claimJobs, mayClaim } from './claim.ts'
import { type Connection, readNow } from './connection.ts'
import type { Gate, WriteOptions } from './gate.ts'
import { takeBackLapsed } from './lapse.ts'
import { extend, findHeld } from './lease.ts'
import { cancelJob, pauseQueue, pruneHistory, retryDeadJobs, retryJob } from './operate.ts'
import type { Reader } from './reader.ts'
import { countJobs, findJob, findOutcome, listJobs } from './reads.ts'
import { settleAll, settleOne } from './settle.ts'
import type { Transactions } from './transact.ts'

/**
 * Jobs in SQLite: says of each operation where it runs (the gate, the reader, a transaction) and with which statements.
 * Each reads the clock once, when it has the lock, so all it decides is of one moment and none of it is of a moment
 * before it had to wait.
 */
export interface SqliteJobsOptions {
  readonly namespace: string
  readonly home: Home
  readonly gate: Gate
  readonly reader: Reader
  readonly transactions: Transactions
  /** Throws when the store was closed. */
  check(): void
}

export class SqliteJobs implements JobStore {
  readonly #options: SqliteJobsOptions
  readonly #namespace: string

  constructor(options: SqliteJobsOptions) {
    this.#options = options
    this.#namespace = options.namespace
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    if (tx === undefined)
      return this.#write((connection, now) => addJobs(connection, this.#namespace, jobs, now))
    return this.#writeIn(tx, (connection, now) => addJobs(connection, this.#namespace, jobs, now))
  }

  async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    if (!(await this.#read((connection) => mayClaim(connection, this.#namespace, request)))) return []
    while (true) {
      const claimed = await this.#write((connection) => claimJobs(connection, this.#namespace, request))
      if (claimed) return claimed
    }
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    return this.#write(
      (connection, now) =>
        findHeld(connection, this.#namespace, leases, now).flatMap((held, i) => {
          if (!held) return []
          const { jobId, token } = leases[i]!
          const leaseEndsAt = extend(connection, held, now + leaseMs, now)
          return [{ jobId, token, leaseEndsAt, cancelRequested: held.cancelRequested }]
        }),
      { urgent: true },
    )
  }

  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return this.#write((connection, now) => settleAll(connection, this.#namespace, verdicts, now))
  }

  async settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    this.#options.check()
    return writeInCallers(tx, this.#options.home, (connection) =>
      settleOne(connection, this.#namespace, verdict),
    )
  }

  transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    return this.#options.transactions.transact(work, options)
  }

  transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    return this.#options.transactions.transactAll(works, options)
  }

  outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]> {
    return this.#read((connection, now) =>
      leases.map((lease) => findOutcome(connection, this.#namespace, lease, now)),
    )
  }

  cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]> {
    return this.#read((connection, now) =>
      findHeld(connection, this.#namespace, leases, now).flatMap((held, i) =>
        held?.cancelRequested ? [leases[i]!.jobId] : [],
      ),
    )
  }

  reclaim(limit: number): Promise<{ ready: number; dead: number; cancelled: number }> {
    return this.#write((connection, now) => {
      const counts = { ready: 0, dead: 0, cancelled: 0 }
      for (const state of takeBackLapsed(connection, this.#namespace, limit, now)) counts[state]++
      return counts
    })
  }

  find(id: string): Promise<JobRecord | undefined> {
    return this.#read((connection) => findJob(connection, this.#namespace, id))
  }

  list(query: ListQuery): Promise<readonly JobRecord[]> {
    return this.#read((connection) => listJobs(connection, this.#namespace, query))
  }

  cancel(id: string): Promise<CancelAnswer | undefined> {
    return this.#write((connection, now) => cancelJob(connection, this.#namespace, id, now))
  }

  retry(id: string): Promise<RetryAnswer | undefined> {
    return this.#write((connection, now) => retryJob(connection, this.#namespace, id, now))
  }

  retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    return this.#write((connection, now) => retryDeadJobs(connection, this.#namespace, query, now))
  }

  stats(): Promise<readonly QueueStats[]> {
    return this.#read((connection) => countJobs(connection, this.#namespace))
  }

  pause(queue: string): Promise<void> {
    return this.#write((connection, now) => pauseQueue(connection, this.#namespace, queue, now))
  }

  resume(queue: string): Promise<void> {
    return this.#write((connection) => pauseQueue(connection, this.#namespace, queue, null))
  }

  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number> {
    return this.#write((connection, now) => pruneHistory(connection, this.#namespace, request, now))
  }

  #write<Value>(
    work: (connection: Connection, now: number) => Value,
    options?: WriteOptions,
  ): Promise<Value> {
    return this.#options.gate.write((connection) => work(connection, readNow(connection)), options)
  }

  #read<Value>(work: (connection: Connection, now: number) => Value): Promise<Value> {
    return this.#options.reader.read((connection) => work(connection, readNow(connection)))
  }

  #writeIn<Value>(tx: unknown, work: (connection: Connection, now: number) => Value): Value {
    this.#options.check()
    return writeInCallers(tx, this.#options.home, (connection) => work(connection, readNow(connection)))
  }
}
