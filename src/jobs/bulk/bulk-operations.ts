import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { flag, oneOf, onlyKeys, text, whole } from '../../core/options.ts'
import { isReserved, resolveNewJob } from '../api/add-options.ts'
import { cancelTopic, type JobsNotifier, queueTopic } from '../api/jobs-api.ts'
import { decodeError } from '../decode-job.ts'
import type { JobError } from '../job.ts'
import type { JobRecord, JobStore } from '../job-store.ts'
import type { AttemptLogStore } from '../logs/log-writer.ts'
import { countMatches, exactly, type MatchCount } from '../search/scan-jobs.ts'
import { parseSearch } from '../search/search-terms.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'

/**
 * A bulk operation acts on every job that matches a search. It is itself a job in one of Signalbox's own queues, so it
 * outlives the caller: any box with a worker, and any server, works on it and continues after a crash. The payload of
 * this job is the order, and its progress is the position. Nothing else is stored.
 */
export interface BulkVerbs {
  /** Counts the matching jobs, as far as one search reads. */
  bulk(options: BulkOptions & { readonly dryRun: true }): Promise<BulkCount>
  /** Starts the operation on all present jobs that match. Returns at once. */
  bulk(options: BulkOptions & { readonly dryRun?: false | undefined }): Promise<BulkOperation>
  bulk(options: BulkOptions): Promise<BulkOperation | BulkCount>
  bulkOperation(id: string): Promise<BulkOperation | undefined>
  /** The newest operations first. */
  bulkOperations(options?: { readonly limit?: number | undefined }): Promise<readonly BulkOperation[]>
  /** Ends the operation and keeps its finished part. An ended operation stays as it is. Throws `not_found`. */
  cancelBulk(id: string): Promise<BulkOperation>
}

export const bulkActions = ['retry', 'cancel', 'delete'] as const
export type BulkAction = (typeof bulkActions)[number]

export interface BulkOptions {
  /** `retry`, `cancel` or `remove` for each job; jobs that do not allow it are skipped. */
  readonly action: BulkAction
  /** Which jobs. */
  readonly search: string
  /** Ends after this many matching jobs. @default none */
  readonly limit?: number | null | undefined
  /** Only count. @default false */
  readonly dryRun?: boolean | undefined
  /** With `dryRun`: continue the count at the cursor of the part before. @default from the newest job */
  readonly cursor?: string | null | undefined
}

/**
 * The number of matching jobs, by state. If `stopped` is set, the count read only `scanned` jobs: call again with
 * `cursor` and add up the parts. The cursor is null when the count is complete.
 */
export type BulkCount = MatchCount

export interface BulkOperation extends BulkOrder, BulkCounts {
  readonly id: string
  /** `running` from its start, even while no process works on it. */
  readonly state: 'running' | 'completed' | 'failed' | 'cancelled'
  readonly startedAt: number
  readonly finishedAt: number | null
  /** The error that ended the operation, or after which it is tried again. */
  readonly error: JobError | null
}

export interface BulkCounts {
  /** Jobs that matched so far. */
  readonly matched: number
  /** Jobs on which it succeeded. */
  readonly done: number
  /** Jobs that do not allow the action: running, already ended, gone, or with a unique key that another job has now. */
  readonly skipped: number
}

export const bulkQueue = 'signalbox.bulk'
export const bulkKind = 'bulk'
/** Each attempt continues the previous one. Attempts cover crashes, and times when the store is down. */
const maxAttempts = 100

/** The payload of its job. */
export interface BulkOrder {
  readonly action: BulkAction
  readonly search: string
  readonly limit: number | null
}

export interface BulkParts {
  readonly store: JobStore
  readonly logs: AttemptLogStore
  readonly notifier: JobsNotifier
  /** Counts the jobs that this process cancels. @default not counted */
  readonly activity?: Pick<JobActivity, 'cancelled'>
}

/** `began` is called for each operation that starts here. */
export function bulkVerbs(parts: BulkParts | undefined, began: () => void): BulkVerbs {
  const requireParts = (): BulkParts => {
    if (parts !== undefined) return parts
    throw invalidArgument('Bulk operations need a log store, and these jobs were created without one.')
  }

  async function begin(order: BulkOrder): Promise<BulkOperation> {
    const { store, notifier } = requireParts()
    // The unique key lets a store find the namespaces that have operations.
    const options = { queue: bulkQueue, maxAttempts, uniqueKey: createId() }
    const [added] = await store.add([resolveNewJob('bulk', bulkKind, order, options, true)])
    notifier.wake(queueTopic(bulkQueue))
    began()
    return (await find(added!.id))!
  }

  async function find(id: string): Promise<BulkOperation | undefined> {
    const { store, logs } = requireParts()
    const record = await store.find(id)
    if (record === undefined || record.queue !== bulkQueue) return undefined
    const [reported] = await logs.progress([id])
    return decodeOperation(record, reported?.progress)
  }

  const verbs = {
    async bulk(options: BulkOptions): Promise<BulkOperation | BulkCount> {
      const { dryRun, cursor, ...order } = resolveBulk(options)
      if (!dryRun) return begin(order)
      return countMatches(requireParts().store, order.search, { limit: order.limit, before: cursor })
    },
    bulkOperation: async (id: string) => find(text('bulkOperation.id', id)),

    async bulkOperations(options: { readonly limit?: number | undefined } = {}) {
      const { store, logs } = requireParts()
      const records = await store.list({ queue: bulkQueue, limit: resolveLimit(options) })
      const reported = await logs.progress(records.map(({ id }) => id))
      const progress = new Map(reported.map((one) => [one.jobId, one.progress]))
      return records.map((record) => decodeOperation(record, progress.get(record.id)))
    },

    async cancelBulk(id: string) {
      const { store, notifier } = requireParts()
      if ((await find(text('cancelBulk.id', id))) === undefined) throw noOperation(id)
      const answer = await store.cancel(id)
      if (answer?.cancelRequested) notifier.wake(cancelTopic)
      const operation = await find(id)
      if (operation === undefined) throw noOperation(id)
      return operation
    },
  }
  return verbs as BulkVerbs
}

function resolveLimit(options: { readonly limit?: number | undefined }): number {
  onlyKeys('bulkOperations', options, ['limit'])
  return whole('bulkOperations.limit', options.limit ?? 50, { min: 1, max: 500 })
}

type ResolvedBulk = BulkOrder & { readonly dryRun: boolean; readonly cursor: string | null }

function resolveBulk(options: BulkOptions): ResolvedBulk {
  onlyKeys('bulk', options, ['action', 'search', 'limit', 'dryRun', 'cursor'])
  const { action, search, limit = null, dryRun = false, cursor = null } = options
  if (cursor !== null && !dryRun)
    throw invalidArgument(
      'bulk.cursor continues a count: set dryRun to true, or leave the cursor out.',
      'bulk.cursor',
    )
  const terms = parseSearch(search, 'bulk.search')
  const queue = exactly(terms, 'queue')
  if (queue !== undefined && isReserved(queue))
    throw invalidArgument(
      `bulk.search names the queue "${queue}", which belongs to Signalbox itself; bulk operations cannot act on its jobs.`,
      'bulk.search',
    )
  if (terms.length === 0)
    throw invalidArgument(
      'bulk.search has no terms, so it would match every job. Add terms, or write id:* to match all jobs.',
      'bulk.search',
    )
  return {
    action: oneOf('bulk.action', action, bulkActions),
    search,
    limit: limit === null ? null : whole('bulk.limit', limit, { min: 1, max: 1_000_000_000 }),
    dryRun: flag('bulk.dryRun', dryRun),
    cursor: cursor === null ? null : text('bulk.cursor', cursor),
  }
}

/** Reads the counts from the result of its job, or from its progress before the job completes. */
function decodeOperation(record: JobRecord, progress: string | undefined): BulkOperation {
  const order = JSON.parse(record.payload) as BulkOrder
  const {
    matched = 0,
    done = 0,
    skipped = 0,
  } = JSON.parse(record.result ?? progress ?? '{}') as Partial<BulkCounts>
  return {
    id: record.id,
    ...{ action: order.action, search: order.search, limit: order.limit },
    state: stateOf(record),
    matched,
    done,
    skipped,
    startedAt: record.createdAt,
    finishedAt: record.finishedAt,
    error: decodeError(record.error),
  }
}

function stateOf({ state }: JobRecord): BulkOperation['state'] {
  if (state === 'completed' || state === 'cancelled') return state
  return state === 'dead' ? 'failed' : 'running'
}

function noOperation(id: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no bulk operation "${id}": it was never begun, or it was pruned.`,
  )
}
