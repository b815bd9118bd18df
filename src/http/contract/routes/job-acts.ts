import type { BulkCount, BulkOperation, BulkOptions, CancelAnswer, Jobs } from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import { exactly, object, oneOf, part, type Schema, strictObject, Type } from '../schema.ts'
import {
  failure,
  type IdParams,
  instant,
  jobState,
  name,
  orNull,
  type Page,
  type PageQuery,
  pageOf,
  span,
} from '../values.ts'

/** Routes for operators: cancel, retry, prune and remove jobs, one by one or by a search. */

export const cancelJob: Route<{ params: IdParams; reply: CancelAnswer }> = {
  ...route('jobs', 'cancelJob', 'POST /v1/jobs/{id}/cancel', 'work'),
  summary: 'Cancel a job. A running job gets a cancellation request.',
  replies: { 200: object({ state: jobState, cancelRequested: Type.Boolean() }) },
  problems: ['not_found'],
}

export const retryJob: Route<{ params: IdParams; reply: Awaited<ReturnType<Jobs['retry']>> }> = {
  ...route('jobs', 'retryJob', 'POST /v1/jobs/{id}/retry', 'work'),
  summary: 'Make an ended job ready again, with attempt 0.',
  replies: { 200: object({ id: Type.String(), state: Type.Literal('ready') }) },
  problems: ['not_found', 'conflict'],
}

type RetryDeadBody = NonNullable<Parameters<Jobs['retryDead']>[0]>

export const retryDeadJobs: Route<{ body: RetryDeadBody; reply: { readonly retried: number } }> = {
  ...route('jobs', 'retryDeadJobs', 'POST /v1/jobs/retry-dead', 'admin'),
  summary: 'Make dead jobs ready again, oldest first.',
  body: strictObject({
    queue: Type.Optional(name),
    kind: Type.Optional(name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 1_000 })),
  }),
  bodyOptional: true,
  replies: { 200: object({ retried: Type.Integer() }) },
}

export const pruneJobs: Route<{ body: Parameters<Jobs['prune']>[0]; reply: { readonly pruned: number } }> = {
  ...route('jobs', 'pruneJobs', 'POST /v1/jobs/prune', 'admin'),
  summary: 'Delete jobs that ended longer ago than `olderThanMs`.',
  body: strictObject({ olderThanMs: span }),
  replies: { 200: object({ pruned: Type.Integer() }) },
}

export const removeJobs: Route<{
  body: { readonly ids: readonly string[] }
  reply: Awaited<ReturnType<Jobs['remove']>>
}> = {
  ...route('jobs', 'removeJobs', 'POST /v1/jobs/remove', 'admin'),
  summary: 'Delete jobs that do not run, with their results and logs.',
  description:
    'A running job stays; cancel it first. `removed` has the ids of the deleted jobs, in any order.',
  body: strictObject({ ids: Type.Array(name, { maxItems: 1_000 }) }),
  replies: { 200: object({ removed: Type.Array(Type.String()) }) },
}

/** Must equal `searchLimits`. */
export const maxSearchChars = 2_000

const action = oneOf('retry', 'cancel', 'delete')
const stopped = Type.Union([Type.Literal('rows'), Type.Literal('time'), Type.Null()])
const count = Type.Integer()

const operation: Schema<BulkOperation> = object({
  id: Type.String(),
  action,
  search: Type.String(),
  limit: orNull(count),
  state: oneOf('running', 'completed', 'failed', 'cancelled'),
  matched: count,
  done: count,
  skipped: count,
  startedAt: instant,
  finishedAt: orNull(instant),
  error: orNull(failure),
})
const bulkCount = Type.Object({
  matched: count,
  states: Type.Object({
    scheduled: count,
    ready: count,
    waiting: count,
    running: count,
    completed: count,
    dead: count,
    cancelled: count,
  }),
  scanned: count,
  stopped,
  cursor: orNull(Type.String()),
})

const bulkReply: Schema<BulkOperation | BulkCount> = exactly(Type.Union([part(operation), bulkCount]))

export const bulkJobs: Route<{ body: BulkOptions; reply: BulkOperation | BulkCount }> = {
  ...route('jobs', 'bulkJobs', 'POST /v1/jobs/bulk', 'admin'),
  summary: 'Retry, cancel or delete every job that a search matches.',
  description:
    '202 with an operation that continues by itself, also after a restart of the server; see ' +
    '`/v1/operations/{id}`. It works on jobs that existed when it began. With `dryRun` nothing is done: 200 with ' +
    'the number of matching jobs by state. A long count comes in parts: send `cursor` until it is null, and add ' +
    'up the parts.',
  body: strictObject({
    action,
    search: Type.String({ minLength: 1, maxLength: maxSearchChars }),
    limit: Type.Optional(orNull(Type.Integer({ minimum: 1, maximum: 1_000_000_000 }))),
    dryRun: Type.Optional(Type.Boolean({ default: false })),
    cursor: Type.Optional(orNull(Type.String({ minLength: 1, maxLength: 191 }))),
  }),
  replies: { 200: bulkReply, 202: bulkReply },
}

export const listBulkOperations: Route<{ query: Pick<PageQuery, 'limit'>; reply: Page<BulkOperation> }> = {
  ...route('jobs', 'listBulkOperations', 'GET /v1/operations', 'read'),
  summary: 'List bulk operations, newest first.',
  query: strictObject({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
  }),
  replies: {
    200: pageOf(operation),
  },
}

export const getBulkOperation: Route<{ params: IdParams; reply: BulkOperation }> = {
  ...route('jobs', 'getBulkOperation', 'GET /v1/operations/{id}', 'read'),
  summary: 'Get the progress of a bulk operation.',
  replies: { 200: operation },
  problems: ['not_found'],
}

export const cancelBulkOperation: Route<{ params: IdParams; reply: BulkOperation }> = {
  ...route('jobs', 'cancelBulkOperation', 'POST /v1/operations/{id}/cancel', 'admin'),
  summary: 'Stop a bulk operation. Jobs that it changed stay changed.',
  replies: { 200: operation },
  problems: ['not_found'],
}
