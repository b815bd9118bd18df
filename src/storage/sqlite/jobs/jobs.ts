import type { ClaimedRecord, ClaimRequest, JobStore } from '../../../jobs/index.ts'
import type { RequestKey } from '../../backend.ts'
import type { SchemaWatch } from '../../migration-plan.ts'
import { createKeyedJobs } from '../../request-key.ts'
import type { Database } from '../../sql/database.ts'
import { createJobReads } from '../../sql/job-reads.ts'
import { findCancelRequests, findOutcomes } from '../../sql/jobs/attempt-looks.ts'
import { findAnswer } from '../../sql/request-keys.ts'
import { type Connection, type Moment, momentOf } from '../connection/connection.ts'
import { addJobs, runHere } from '../connection/database.ts'
import type { Reader } from '../connection/reader.ts'
import type { Transactions } from '../connection/transact.ts'
import type { Operation, WriteCall, Writer, Writes } from '../writing/writes.ts'
import { mayClaim } from './claim.ts'
import { createEstimate } from './counts.ts'
import { settleAll } from './settle.ts'

/** Jobs of one namespace in SQLite. Each operation runs on the writer, on the reader or in a transaction. */
export interface SqliteJobsOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  readonly database: Database
  readonly transactions: SqliteTransactions
  /** Whether handlers' transactions may hold the writer for some time. */
  readonly hasHolds: boolean
  /** Refuses new work if this program cannot use the schema. */
  readonly schema: Pick<SchemaWatch, 'refuse'>
  /** Throws if the store was closed. */
  check(): void
}

/** Transactions in which jobs can be written: the store's own, and those of callers on the same file. */
export interface SqliteTransactions extends Pick<Transactions, 'transact' | 'transactAll'> {
  /** Runs `work` in the caller's transaction, which the caller commits. */
  join<Value>(tx: unknown, work: (connection: Connection) => Value): Value
  /** Ends the caller's transaction: nothing written in it can be committed. */
  end(tx: unknown, error: unknown): void
}

/** The job store, and a view for a request that must not take effect twice. */
export function createSqliteJobs({
  namespace,
  writer,
  reader,
  database,
  transactions,
  hasHolds,
  schema,
  check,
}: SqliteJobsOptions): { readonly jobs: JobStore; keyed(key: RequestKey): JobStore } {
  /** The last claim found a job, so the next one probably will too. */
  let wasClaiming = false

  const ask = <Name extends Operation>(operation: Name, args: Parameters<Writes[Name]>, key?: RequestKey) =>
    writer.write<Name>({ operation, namespace, args, key })
  const write =
    <Name extends Operation>(operation: Name) =>
    (...args: Parameters<Writes[Name]>) =>
      ask(operation, args)
  const read = <Value>(work: (moment: Moment) => Value): Promise<Value> =>
    reader.read((connection) => work(momentOf(connection, namespace)))
  const join = <Value>(tx: unknown, work: (moment: Moment) => Value): Value => {
    check()
    return transactions.join(tx, (connection) => work(momentOf(connection, namespace)))
  }

  /**
   * Checks with the reader before it asks the writer: an idle worker never needs the writer's lock, and a stored key is
   * already an answer. While claims find jobs, the check is unnecessary. But if a transaction may hold the writer, the
   * check always runs: a claim that finds nothing would wait for its end, and so would a stopping worker.
   */
  async function claim(request: ClaimRequest, key?: RequestKey): Promise<readonly ClaimedRecord[]> {
    schema.refuse()
    const isWorthIt =
      wasClaiming ||
      (await read(
        (moment) =>
          (key !== undefined &&
            runHere(moment.connection, findAnswer(namespace, key), moment.now) !== undefined) ||
          mayClaim(moment, request),
      ))
    if (!isWorthIt) return []
    while (true) {
      const claimed = await ask('claim', [request], key)
      if (claimed === undefined) continue
      wasClaiming = claimed.length > 0 && !hasHolds
      return claimed
    }
  }

  const jobs: JobStore = {
    async add(added, tx) {
      if (tx === undefined) return ask('add', [added])
      return join(tx, (moment) => addJobs(moment, added))
    },
    claim: (request) => claim(request),
    renew: write('renew'),
    settle: write('settle'),
    settleIn: async (tx, verdict) => join(tx, (moment) => settleAll(moment, [verdict])[0]!),
    endTransaction: async (tx, error) => transactions.end(tx, error),
    async transact(work, options) {
      check()
      return transactions.transact(namespace, work, options)
    },
    async transactAll(works, options) {
      check()
      return transactions.transactAll(namespace, works, options)
    },
    outcomes: (leases) => database.run(findOutcomes, [namespace, leases]),
    cancelRequests: (leases) => database.run(findCancelRequests, [namespace, leases]),
    ...createJobReads(database, namespace, createEstimate(reader, namespace)),
    reclaim: write('reclaim'),
    cancel: write('cancel'),
    retry: write('retry'),
    retryDead: write('retryDead'),
    pause: write('pause'),
    resume: write('resume'),
    setLimits: write('setLimits'),
    remove: write('remove'),
    prune: write('prune'),
  }
  return {
    jobs,
    keyed: (key) =>
      createKeyedJobs(jobs, (method, args) =>
        method === 'claim'
          ? claim(args[0] as ClaimRequest, key)
          : writer.write({ operation: method, namespace, args, key } as WriteCall),
      ),
  }
}
