import type {
  Added,
  AttemptOutcome,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  EndedQuery,
  JobEnd,
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
import type { RequestKey } from '../../backend.ts'
import type { SchemaWatch } from '../../schema-watch.ts'
import type { Database } from '../../sql/database.ts'
import { createJobReads } from '../../sql/job-reads.ts'
import { findKept } from '../../sql/request-keys.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import type { Reader } from '../connection/reader.ts'
import type { Transactions } from '../connection/transact.ts'
import type { Writer } from '../writing/writer.ts'
import type { Operation, WriteCall, Writes } from '../writing/writes.ts'
import { addJobs } from './add.ts'
import { mayClaim } from './claim.ts'
import { createEstimate } from './counts.ts'
import { findHeld, findOutcome } from './renew.ts'
import { settleOne } from './settle.ts'

/** Jobs of one namespace in SQLite: says of each operation where it runs (the writer, the reader, a transaction). */
export interface SqliteJobsOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  readonly database: Database
  readonly transactions: SqliteTransactions
  /** Whether handlers' transactions may keep the writer for a while. */
  readonly hasHolds: boolean
  /** Whether this program may still begin anything on it. */
  readonly schema: Pick<SchemaWatch, 'refuse'>
  /** Throws when the store was closed. */
  check(): void
}

/** Transactions in which jobs may be written: the store's own, and those of callers on the same file. */
export interface SqliteTransactions extends Pick<Transactions, 'transact' | 'transactAll'> {
  /** Does `work` in the caller's transaction, which decides when it counts. */
  join<Value>(tx: unknown, work: (connection: Connection) => Value): Value
  /** Ends the caller's transaction: nothing written in it can be committed. */
  end(tx: unknown, error: unknown): void
}

export class SqliteJobs implements JobStore {
  readonly #options: SqliteJobsOptions
  readonly #namespace: string
  readonly #reads: ReturnType<typeof createJobReads>
  /** The last claim found something, so the next is likely to. */
  #wasClaiming = false

  constructor(options: SqliteJobsOptions) {
    this.#options = options
    this.#namespace = options.namespace
    this.#reads = createJobReads(
      options.database,
      options.namespace,
      createEstimate(options.reader, options.namespace),
    )
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    if (tx === undefined) return this.#write('add', [jobs])
    return this.#join(tx, (connection) => addJobs(connection, this.#namespace, jobs, readNow(connection)))
  }

  claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    return this.#claim(request)
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]> {
    return this.#write('renew', [leases, leaseMs])
  }

  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return this.#write('settle', [verdicts])
  }

  async settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    return this.#join(tx, (connection) => settleOne(connection, this.#namespace, verdict))
  }

  async endTransaction(tx: unknown, error: unknown): Promise<void> {
    this.#options.transactions.end(tx, error)
  }

  async transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void> {
    this.#options.check()
    return this.#options.transactions.transact(this.#namespace, work, options)
  }

  async transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    this.#options.check()
    return this.#options.transactions.transactAll(this.#namespace, works, options)
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
    return this.#write('reclaim', [limit])
  }

  find(id: string): Promise<JobRecord | undefined> {
    return this.#reads.find(id)
  }

  reach(query: ReachQuery): Promise<string | null> {
    return this.#reads.reach(query)
  }

  ends(query: EndedQuery): Promise<readonly JobEnd[]> {
    return this.#reads.ends(query)
  }

  list(query: ListQuery): Promise<readonly JobRecord[]> {
    return this.#reads.list(query)
  }

  cancel(id: string): Promise<CancelAnswer | undefined> {
    return this.#write('cancel', [id])
  }

  retry(id: string): Promise<RetryAnswer | undefined> {
    return this.#write('retry', [id])
  }

  retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    return this.#write('retryDead', [query])
  }

  stats(): Promise<readonly QueueStats[]> {
    return this.#reads.stats()
  }

  pause(queue: string): Promise<void> {
    return this.#write('pause', [queue])
  }

  resume(queue: string): Promise<void> {
    return this.#write('resume', [queue])
  }

  setLimits(queue: string, limits: QueueLimits | null): Promise<void> {
    return this.#write('setLimits', [queue, limits])
  }

  remove(ids: readonly string[]): Promise<readonly string[]> {
    return this.#write('remove', [ids])
  }

  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number> {
    return this.#write('prune', [request])
  }

  /** One of the methods above that write, for a request that must not be done twice. */
  once(key: RequestKey, method: keyof JobStore, args: readonly unknown[]): Promise<unknown> {
    if (method === 'claim') return this.#claim(args[0] as ClaimRequest, key)
    const operation = method as Operation
    return this.#options.writer.write({ operation, namespace: this.#namespace, args, key } as WriteCall)
  }

  /**
   * Looks before it asks the writer: an idle worker never needs its lock, and a key that is kept is an answer. While
   * claims bring something there is no need to look; but where a transaction may keep the writer, a claim that finds
   * nothing would wait for its end, and a worker that stops with it.
   */
  async #claim(request: ClaimRequest, key?: RequestKey): Promise<readonly ClaimedRecord[]> {
    this.#options.schema.refuse()
    const isWorthIt =
      this.#wasClaiming ||
      (await this.#read(
        (connection, now) =>
          (key !== undefined && runHere(connection, findKept(this.#namespace, key), now) !== undefined) ||
          mayClaim(connection, this.#namespace, request, now),
      ))
    if (!isWorthIt) return []
    while (true) {
      const claimed = await this.#write('claim', [request], key)
      if (claimed === undefined) continue
      this.#wasClaiming = claimed.length > 0 && !this.#options.hasHolds
      return claimed
    }
  }

  #write<Name extends Operation>(
    operation: Name,
    args: Parameters<Writes[Name]>,
    key?: RequestKey,
  ): Promise<ReturnType<Writes[Name]>> {
    return this.#options.writer.write({ operation, namespace: this.#namespace, args, key })
  }

  #read<Value>(work: (connection: Connection, now: number) => Value): Promise<Value> {
    return this.#options.reader.read((connection) => work(connection, readNow(connection)))
  }

  #join<Value>(tx: unknown, work: (connection: Connection) => Value): Value {
    this.#options.check()
    return this.#options.transactions.join(tx, work)
  }
}
