import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { flag, oneOf, onlyKeys, text, whole } from '../../core/options.ts'
import { isReserved, resolveNewJob } from '../api/add-options.ts'
import { decodeError } from '../decode-job.ts'
import type { JobError } from '../job.ts'
import type { JobRecord, JobStore } from '../job-store.ts'
import { cancelTopic, type JobsNotifier, queueTopic } from '../jobs-parts.ts'
import type { LogKeeper } from '../logs/log-writer.ts'
import { parseSearch } from '../search/parse-search.ts'
import { exactly } from '../search/scan-jobs.ts'
import { countMatches, type MatchCount } from '../search/search.ts'

/**
 * Something done to every job that a search means. It is a job itself, in a queue of Signalbox's own, so it outlives
 * whoever began it: any box with a worker, and any server, works on it, and goes on where another was cut off. Its payload
 * says what is to be done, its logs how far it is; nothing else is kept about it.
 */
export interface BulkVerbs {
  /** How many jobs are meant, as far as one search looks. */
  bulk(options: BulkOptions & { readonly dryRun: true }): Promise<BulkCount>
  /** Begins to do it to all jobs that are there now and are meant; answers at once. */
  bulk(options: BulkOptions & { readonly dryRun?: false | undefined }): Promise<BulkOperation>
  bulk(options: BulkOptions): Promise<BulkOperation | BulkCount>
  bulkOperation(id: string): Promise<BulkOperation | undefined>
  /** The newest operations first. */
  bulkOperations(options?: { readonly limit?: number | undefined }): Promise<readonly BulkOperation[]>
  /** Ends it where it is; what was done stays done. Throws `not_found`. One that has ended stays as it is. */
  cancelBulk(id: string): Promise<BulkOperation>
}

export const bulkActions = ['retry', 'cancel', 'delete'] as const
export type BulkAction = (typeof bulkActions)[number]

export interface BulkOptions {
  /** What `retry`, `cancel` and removing do to one job is done to each; those to which it cannot be done are skipped. */
  readonly action: BulkAction
  /** Which jobs. */
  readonly search: string
  /** Ends after so many jobs that are meant. @default none */
  readonly limit?: number | null | undefined
  /** Only count. @default false */
  readonly dryRun?: boolean | undefined
  /** With `dryRun`: continue the count at the cursor of the part before. @default from the newest job */
  readonly cursor?: string | null | undefined
}

/**
 * How many jobs match, by state. `stopped` says that the count looked at `scanned` jobs only: ask again with `cursor` and
 * add up the parts. The cursor is null when the count is complete.
 */
export type BulkCount = MatchCount

export interface BulkOperation extends BulkCounts {
  readonly id: string
  readonly action: BulkAction
  readonly search: string
  readonly limit: number | null
  /** `running` from the beginning, also while nobody is there to work on it. */
  readonly state: 'running' | 'completed' | 'failed' | 'cancelled'
  readonly startedAt: number
  readonly finishedAt: number | null
  /** What ended it, or what it is tried again after. */
  readonly error: JobError | null
}

export interface BulkCounts {
  /** Jobs that were meant, so far. */
  readonly matched: number
  /** Jobs that it was done to. */
  readonly done: number
  /** Jobs to which it cannot be done: running, ended already, gone, or with a key that another has now. */
  readonly skipped: number
}

export const bulkQueue = 'signalbox.bulk'
export const bulkKind = 'bulk'
/** Each attempt goes on where the last one was cut off, so they are for crashes and for stores that are away. */
const maxAttempts = 100

/** What is to be done, as its job keeps it. */
export interface BulkOrder {
  readonly action: BulkAction
  readonly search: string
  readonly limit: number | null
}

export interface BulkParts {
  readonly store: JobStore
  readonly logs: LogKeeper
  readonly notifier: JobsNotifier
}

/** `began` is told of each operation that is begun here. */
export function bulkVerbs(parts: BulkParts | undefined, began: () => void): BulkVerbs {
  const whole = (): BulkParts => {
    if (parts !== undefined) return parts
    throw new SignalboxError(
      'invalid_argument',
      'These jobs were made without a store of logs, which bulk needs.',
    )
  }

  async function begin(order: BulkOrder): Promise<BulkOperation> {
    const { store, notifier } = whole()
    // A key of its own: by its keys a store finds the namespaces in which there is something to do.
    const options = { queue: bulkQueue, maxAttempts, uniqueKey: createId() }
    const [added] = await store.add([resolveNewJob('bulk', bulkKind, order, options, true)])
    notifier.wake(queueTopic(bulkQueue))
    began()
    return (await look(added!.id))!
  }

  async function look(id: string): Promise<BulkOperation | undefined> {
    const { store, logs } = whole()
    const record = await store.find(id)
    if (record === undefined || record.queue !== bulkQueue) return undefined
    const [said] = await logs.progress([id])
    return decodeOperation(record, said?.progress)
  }

  const verbs = {
    async bulk(options: BulkOptions): Promise<BulkOperation | BulkCount> {
      const { dryRun, cursor, ...order } = resolveBulk(options)
      if (!dryRun) return begin(order)
      return countMatches(whole().store, order.search, { limit: order.limit, before: cursor })
    },
    bulkOperation: async (id: string) => look(text('bulkOperation.id', id)),

    async bulkOperations(options: { readonly limit?: number | undefined } = {}) {
      const { store, logs } = whole()
      const records = await store.list({ queue: bulkQueue, limit: resolveLimit(options) })
      const said = await logs.progress(records.map(({ id }) => id))
      const progress = new Map(said.map((one) => [one.jobId, one.progress]))
      return records.map((record) => decodeOperation(record, progress.get(record.id)))
    },

    async cancelBulk(id: string) {
      const { store, notifier } = whole()
      if ((await look(text('cancelBulk.id', id))) === undefined) throw noOperation(id)
      const answer = await store.cancel(id)
      if (answer?.cancelRequested) notifier.wake(cancelTopic)
      const operation = await look(id)
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
    throw new SignalboxError(
      'invalid_argument',
      'bulk.cursor continues a count: set dryRun to true, or leave the cursor out.',
      { details: { option: 'bulk.cursor' } },
    )
  const terms = parseSearch(search, 'bulk.search')
  const queue = exactly(terms, 'queue')
  if (queue !== undefined && isReserved(queue))
    throw new SignalboxError(
      'invalid_argument',
      `bulk.search names the queue "${queue}", which is Signalbox's own; nothing is done to its jobs in bulk.`,
      { details: { option: 'bulk.search' } },
    )
  if (terms.length === 0)
    throw new SignalboxError(
      'invalid_argument',
      'bulk.search has no terms, so it would mean every job. Say which, or write id:* if all are meant.',
      { details: { option: 'bulk.search' } },
    )
  return {
    action: oneOf('bulk.action', action, bulkActions),
    search,
    limit: limit === null ? null : whole('bulk.limit', limit, { min: 1, max: 1_000_000_000 }),
    dryRun: flag('bulk.dryRun', dryRun),
    cursor: cursor === null ? null : text('bulk.cursor', cursor),
  }
}

/** How far it is: what its logs say, until its job has ended well and has it as its result. */
function decodeOperation(record: JobRecord, progress: string | undefined): BulkOperation {
  const order = JSON.parse(record.payload) as BulkOrder
  const {
    matched = 0,
    done = 0,
    skipped = 0,
  } = JSON.parse(record.result ?? progress ?? '{}') as Partial<BulkCounts>
  return {
    id: record.id,
    action: order.action,
    search: order.search,
    limit: order.limit,
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
