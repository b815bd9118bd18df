import type { Duration } from '../../../core/duration.ts'
import type { JobState } from '../../../jobs/index.ts'
import { type IdParams, idParams } from '../page.ts'
import type { Route } from '../route.ts'
import { schemaFor, strict, Type } from '../schema.ts'
import { jobState, name, span } from '../values.ts'

/** What is done to jobs from outside: ended, begun anew, forgotten. */

export interface Cancelled {
  readonly state: JobState
  readonly cancelRequested: boolean
}

export const cancelJob: Route<{ params: IdParams; reply: Cancelled }> = {
  id: 'cancelJob',
  method: 'POST',
  path: '/v1/jobs/{id}/cancel',
  scope: 'work',
  module: 'jobs',
  summary: 'End a job that is not running, and ask the worker of one that is.',
  params: idParams,
  replies: { 200: schemaFor<Cancelled>()(Type.Object({ state: jobState, cancelRequested: Type.Boolean() })) },
  mutates: true,
  problems: ['not_found'],
}

export interface Retried {
  readonly id: string
  readonly state: 'ready'
}

export const retryJob: Route<{ params: IdParams; reply: Retried }> = {
  id: 'retryJob',
  method: 'POST',
  path: '/v1/jobs/{id}/retry',
  scope: 'work',
  module: 'jobs',
  summary: 'Make a job that ended ready again, with attempt 0.',
  params: idParams,
  replies: { 200: schemaFor<Retried>()(Type.Object({ id: Type.String(), state: Type.Literal('ready') })) },
  mutates: true,
  problems: ['not_found', 'conflict'],
}

export interface RetryDeadBody {
  readonly queue?: string
  readonly kind?: string
  readonly limit?: number
}

export const retryDeadJobs: Route<{ body: RetryDeadBody; reply: { readonly retried: number } }> = {
  id: 'retryDeadJobs',
  method: 'POST',
  path: '/v1/jobs/retry-dead',
  scope: 'admin',
  module: 'jobs',
  summary: 'Make dead jobs ready again, oldest first.',
  body: schemaFor<RetryDeadBody>()(
    Type.Object(
      {
        queue: Type.Optional(name),
        kind: Type.Optional(name),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 1_000 })),
      },
      strict,
    ),
  ),
  bodyOptional: true,
  replies: { 200: schemaFor<{ readonly retried: number }>()(Type.Object({ retried: Type.Integer() })) },
  mutates: true,
}

export interface PruneBody {
  readonly olderThanMs: Duration
}

export const pruneJobs: Route<{ body: PruneBody; reply: { readonly pruned: number } }> = {
  id: 'pruneJobs',
  method: 'POST',
  path: '/v1/jobs/prune',
  scope: 'admin',
  module: 'jobs',
  summary: 'Forget jobs that ended longer ago than that.',
  body: schemaFor<PruneBody>()(Type.Object({ olderThanMs: span }, strict)),
  replies: { 200: schemaFor<{ readonly pruned: number }>()(Type.Object({ pruned: Type.Integer() })) },
  mutates: true,
}

export interface RemoveBody {
  readonly ids: readonly string[]
}
export interface Removed {
  readonly removed: readonly string[]
}

export const removeJobs: Route<{ body: RemoveBody; reply: Removed }> = {
  id: 'removeJobs',
  method: 'POST',
  path: '/v1/jobs/remove',
  scope: 'admin',
  module: 'jobs',
  summary: 'Forget these jobs, whether they wait or have ended, with all that is kept about them.',
  description:
    'A job that runs stays; cancel it first. Answers the ids of those that were there and are gone now, in any order.',
  body: schemaFor<RemoveBody>()(Type.Object({ ids: Type.Array(name, { maxItems: 1_000 }) }, strict)),
  replies: { 200: schemaFor<Removed>()(Type.Object({ removed: Type.Array(Type.String()) })) },
  mutates: true,
}
