import type { ErrorGroup, ErrorGroupOptions } from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import { objectFor, queryFor, Type } from '../schema.ts'
import { failure, instant, name, orNull, type Page } from '../values.ts'

/** Routes of groups of errors. */

const groupFields = {
  fingerprint: Type.String(),
  kind: Type.String(),
  attemptCount: Type.Integer(),
  firstSeenAt: instant,
  lastSeenAt: instant,
  releases: Type.Array(Type.String()),
  sampleJobs: Type.Array(Type.String()),
  error: failure,
}

/** A page of groups of errors. */
export interface ErrorGroupsPage extends Page<ErrorGroup> {
  readonly counting: boolean
}

export const listErrorGroups: Route<{ query: ErrorGroupOptions; reply: ErrorGroupsPage }> = {
  ...route('jobs', 'listErrorGroups', 'GET /v1/errors', 'read'),
  summary: 'List groups of errors of jobs, by their last error.',
  description:
    'Errors with the same cause have one `fingerprint`. It is made of the kind, the name of the error, its message ' +
    'without ids, numbers, dates and quoted values, and the first frame of the user’s code. `attemptCount` counts ' +
    'attempts that failed or were lost. With `counting`, some of the newest are not counted yet. The search ' +
    '`error.group:<fingerprint>` finds the jobs of a group.',
  query: queryFor<ErrorGroupOptions>()({
    kind: Type.Optional(name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}-[0-9a-f]{16}$' })),
  }),
  replies: {
    200: objectFor<ErrorGroupsPage>()({
      items: Type.Array(Type.Object(groupFields)),
      cursor: orNull(Type.String()),
      counting: Type.Boolean(),
    }),
  },
}

export interface FingerprintParams {
  readonly fingerprint: string
}

export const getErrorGroup: Route<{ params: FingerprintParams; reply: ErrorGroup }> = {
  ...route('jobs', 'getErrorGroup', 'GET /v1/errors/{fingerprint}', 'read'),
  summary: 'Get a group of errors.',
  replies: { 200: objectFor<ErrorGroup>()(groupFields) },
  problems: ['not_found'],
}
