import type { BulkAction, BulkCount, BulkOperation } from '../../../jobs/index.ts'
import { type IdParams, idParams, type Page } from '../page.ts'
import type { Route } from '../route.ts'
import { schemaFor, strict, Type } from '../schema.ts'
import { failure, instant, orNull } from '../values.ts'

/** The routes of what is done to every job that a search means. */

/** The same as in `searchLimits`; what it says is read by the service. */
export const maxSearchChars = 2_000

const action = Type.Union([Type.Literal('retry'), Type.Literal('cancel'), Type.Literal('delete')])
const stopped = Type.Union([Type.Literal('rows'), Type.Literal('time'), Type.Null()])
const count = Type.Integer()

const operation = Type.Object({
  id: Type.String(),
  action,
  search: Type.String(),
  limit: Type.Union([count, Type.Null()]),
  state: Type.Union([
    Type.Literal('running'),
    Type.Literal('completed'),
    Type.Literal('failed'),
    Type.Literal('cancelled'),
  ]),
  matched: count,
  done: count,
  skipped: count,
  startedAt: instant,
  finishedAt: Type.Union([instant, Type.Null()]),
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
  cursor: Type.Union([Type.String(), Type.Null()]),
})

export interface BulkBody {
  readonly action: BulkAction
  readonly search: string
  readonly limit?: number | null
  readonly dryRun?: boolean
  readonly cursor?: string | null
}

export const bulkJobs: Route<{ body: BulkBody; reply: BulkOperation | BulkCount }> = {
  id: 'bulkJobs',
  method: 'POST',
  path: '/v1/jobs/bulk',
  scope: 'admin',
  module: 'jobs',
  summary: 'Retry, cancel or delete every job that a search means.',
  description:
    'Answers 202 with an operation that goes on by itself, also when the server is restarted; look at it at `/v1/operations/{id}`. ' +
    'Only jobs that were there when it began are meant. With `dryRun` nothing is done: 200 with how many jobs match, by ' +
    'state. A long count comes in parts: ask again with `cursor` until it is null, and add up the parts.',
  body: schemaFor<BulkBody>()(
    Type.Object(
      {
        action,
        search: Type.String({ minLength: 1, maxLength: maxSearchChars }),
        limit: Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: 1_000_000_000 }), Type.Null()])),
        dryRun: Type.Optional(Type.Boolean({ default: false })),
        cursor: Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: 191 }), Type.Null()])),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<BulkOperation | BulkCount>()(Type.Union([operation, bulkCount])),
    202: schemaFor<BulkOperation | BulkCount>()(Type.Union([operation, bulkCount])),
  },
  mutates: true,
}

export interface ListBulkQuery {
  readonly limit?: number
}

export const listBulkOperations: Route<{ query: ListBulkQuery; reply: Page<BulkOperation> }> = {
  id: 'listBulkOperations',
  method: 'GET',
  path: '/v1/operations',
  scope: 'read',
  module: 'jobs',
  summary: 'List bulk operations, newest first.',
  query: schemaFor<ListBulkQuery>()(
    Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })) }, strict),
  ),
  replies: {
    200: schemaFor<Page<BulkOperation>>()(
      Type.Object({ items: Type.Array(operation), cursor: Type.Union([Type.String(), Type.Null()]) }),
    ),
  },
  mutates: false,
}

export const getBulkOperation: Route<{ params: IdParams; reply: BulkOperation }> = {
  id: 'getBulkOperation',
  method: 'GET',
  path: '/v1/operations/{id}',
  scope: 'read',
  module: 'jobs',
  summary: 'How far a bulk operation is.',
  params: idParams,
  replies: { 200: schemaFor<BulkOperation>()(operation) },
  mutates: false,
  problems: ['not_found'],
}

export const cancelBulkOperation: Route<{ params: IdParams; reply: BulkOperation }> = {
  id: 'cancelBulkOperation',
  method: 'POST',
  path: '/v1/operations/{id}/cancel',
  scope: 'admin',
  module: 'jobs',
  summary: 'End a bulk operation where it is; what was done stays done.',
  params: idParams,
  replies: { 200: schemaFor<BulkOperation>()(operation) },
  mutates: true,
  problems: ['not_found'],
}
