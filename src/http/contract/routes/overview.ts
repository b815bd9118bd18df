import type { Scope } from '../../../access/index.ts'
import type { ContentionSnapshot } from '../../../contention/index.ts'
import type { QueueStats } from '../../../jobs/index.ts'
import type { Route } from '../route.ts'
import { schemaFor, strict, Type } from '../schema.ts'
import { count, instant, name, orNull, waitMs } from '../values.ts'
import { queueStatsSchema } from './queues.ts'
import type { Readiness } from './system.ts'

/** The routes a dashboard begins with: who is asking, and how everything stands. */

/** Who asks, what they may do, and what they speak to. */
export interface Me {
  /** The token's id, or `local`. */
  readonly id: string
  readonly name: string | null
  readonly scope: Scope
  /** The namespace this request acted in. */
  readonly namespace: string
  /** Whether it may name another. */
  readonly everyNamespace: boolean
  /** Namespaces in use here that it may enter, up to 200. */
  readonly namespaces: readonly string[]
  readonly server: {
    readonly version: string
    readonly engine: string
    /** What is weak in how the engine is set up. */
    readonly warnings: readonly string[]
  }
}

export const whoAmI: Route<{ reply: Me }> = {
  id: 'whoAmI',
  method: 'GET',
  path: '/v1/me',
  scope: 'read',
  module: 'access',
  summary: 'Who is asking, what they may do, and what they speak to.',
  replies: {
    200: schemaFor<Me>()(
      Type.Object({
        id: Type.String(),
        name: orNull(Type.String()),
        scope: Type.Union([Type.Literal('read'), Type.Literal('work'), Type.Literal('admin')]),
        namespace: Type.String(),
        everyNamespace: Type.Boolean(),
        namespaces: Type.Array(Type.String()),
        server: Type.Object({
          version: Type.String(),
          engine: Type.String(),
          warnings: Type.Array(Type.String()),
        }),
      }),
    ),
  },
  mutates: false,
}

/** What somebody should look at. */
export interface OverviewProblem {
  /**
   * `check_failed`: the server is not ready, see `subject`. `dead_jobs`, `queue_paused` (with jobs that wait),
   * `queue_behind` (the oldest ready job waits for long): `subject` is the queue. `no_nodes`: tasks wait and no node is
   * there. `dead_notifications`: notifications were given up; `channel_sealed`: notifications wait, because the channel is
   * sealed with a key that the server does not have; `subject` is the name of the subscription.
   * `clock_jump`: the store's clock was set within the last hour; `subject` is by how much.
   */
  readonly kind: ProblemKind
  readonly subject: string
  /** How many are concerned. */
  readonly count: number
  /** Since when, where that is known. */
  readonly since: number | null
  readonly detail: string | null
}
export type ProblemKind =
  | 'check_failed'
  | 'dead_jobs'
  | 'queue_paused'
  | 'queue_behind'
  | 'no_nodes'
  | 'dead_notifications'
  | 'channel_sealed'
  | 'clock_jump'

/** What passed through this server within one step, and how full the queues were when somebody looked. */
export interface OverviewSample {
  /** When the step began. */
  readonly at: number
  readonly added: number
  readonly completed: number
  /** Attempts that failed and are tried again. */
  readonly retried: number
  /** Jobs that failed for good. */
  readonly dead: number
  /** From when a job could have been claimed until it was; null when none was. */
  readonly waitP50Ms: number | null
  readonly waitP99Ms: number | null
  /** From claim to ack or nack; null when none ended. */
  readonly runP50Ms: number | null
  readonly runP99Ms: number | null
  /** Jobs that were ready and running; null when nobody looked. */
  readonly ready: number | null
  readonly running: number | null
}

export interface Overview {
  readonly at: number
  readonly readiness: Readiness
  readonly problems: readonly OverviewProblem[]
  readonly queues: readonly QueueStats[]
  /** Jobs were still being counted when `waitMs` was over: `queues` is of the count before, or empty. Left out otherwise. */
  readonly counting?: boolean
  /** Up to an hour of it, oldest first; steps in which nothing happened are left out. */
  readonly history: {
    readonly stepMs: number
    readonly since: number
    readonly samples: readonly OverviewSample[]
  }
}

export interface OverviewQuery {
  /** Only samples that began then or later. */
  readonly since?: number
  /** How long to wait for a count of very many jobs. @default until it is there */
  readonly waitMs?: number
}

const msOrNull = orNull(Type.Number({ minimum: 0 }))
const kinds = Type.Union([
  Type.Literal('check_failed'),
  Type.Literal('dead_jobs'),
  Type.Literal('queue_paused'),
  Type.Literal('queue_behind'),
  Type.Literal('no_nodes'),
  Type.Literal('dead_notifications'),
  Type.Literal('channel_sealed'),
  Type.Literal('clock_jump'),
])

export const getOverview: Route<{ query: OverviewQuery; reply: Overview }> = {
  id: 'getOverview',
  method: 'GET',
  path: '/v1/overview',
  scope: 'read',
  module: 'system',
  summary: 'How everything stands: problems, health, queues, and the last hour of this server.',
  description:
    '`history` is what passed through the server that answers, in steps of five seconds, kept in its memory for an hour: ' +
    'workers that use the database by themselves are not in it. The counts of queues are those of `GET /v1/queues`, and so is `waitMs`.',
  query: schemaFor<OverviewQuery>()(
    Type.Object({ since: Type.Optional(instant), waitMs: Type.Optional(waitMs) }, strict),
  ),
  replies: {
    200: schemaFor<Overview>()(
      Type.Object({
        at: instant,
        readiness: Type.Object({
          status: Type.String(),
          version: Type.String(),
          checks: Type.Array(
            Type.Object({ name: Type.String(), ok: Type.Boolean(), detail: Type.Optional(Type.String()) }),
          ),
        }),
        problems: Type.Array(
          Type.Object({
            kind: kinds,
            subject: name,
            count,
            since: orNull(instant),
            detail: orNull(Type.String()),
          }),
        ),
        queues: Type.Array(Type.Unsafe<QueueStats>(queueStatsSchema)),
        counting: Type.Optional(Type.Boolean()),
        history: Type.Object({
          stepMs: count,
          since: instant,
          samples: Type.Array(
            Type.Object({
              at: instant,
              added: count,
              completed: count,
              retried: count,
              dead: count,
              waitP50Ms: msOrNull,
              waitP99Ms: msOrNull,
              runP50Ms: msOrNull,
              runP99Ms: msOrNull,
              ready: orNull(count),
              running: orNull(count),
            }),
          ),
        }),
      }),
    ),
  },
  mutates: false,
}

/** The route of contention: who waits, how long and on whom, in the server that answers. */

const ms = Type.Number({ minimum: 0 })
const nameOrNull = Type.Union([Type.String(), Type.Null()])

const distribution = Type.Object({
  count,
  sumMs: ms,
  maxMs: ms,
  p50Ms: ms,
  p90Ms: ms,
  p99Ms: ms,
  p999Ms: ms,
})

const snapshot = Type.Object({
  since: instant,
  at: instant,
  holders: Type.Array(Type.Object({ holder: Type.String(), ms })),
  matrix: Type.Array(Type.Object({ waiter: Type.String(), holder: Type.String(), ms, count })),
  kinds: Type.Array(
    Type.Object({ kind: Type.String(), lane: nameOrNull, wait: distribution, hold: distribution }),
  ),
  lanes: Type.Array(
    Type.Object({ lane: Type.String(), size: count, waiting: count, peakWaiting: count, holding: count }),
  ),
  slowest: Type.Array(
    Type.Object({ kind: Type.String(), what: nameOrNull, waitMs: ms, holdMs: ms, at: instant }),
  ),
  keys: Type.Array(
    Type.Object({
      namespace: Type.String(),
      operation: Type.String(),
      resource: Type.String(),
      holder: nameOrNull,
      waiters: Type.Array(Type.Object({ node: Type.String(), since: instant })),
      waitCount: count,
      waitedMs: ms,
      maxWaitMs: ms,
      heldBy: Type.Array(Type.Object({ node: nameOrNull, ms })),
    }),
  ),
  overflow: Type.Object({ kinds: count, tickets: count, cells: count, keys: count }),
})

export const getContention: Route<{ reply: ContentionSnapshot }> = {
  id: 'getContention',
  method: 'GET',
  path: '/v1/contention',
  scope: 'read',
  module: 'contention',
  summary: 'Who waits, how long, and on whom, in the server that answers.',
  description:
    'Waits and holds by kind of command, the matrix of who waited on whom (with `gc`, `event-loop`, `host` and `store` among the holders), ' +
    'lanes, the slowest turns of the last one to two hours, and waits for locks by key. It is of one process: ask each server. ' +
    'A token of one namespace sees the keys of its own alone, and not what the slowest turns were about.',
  replies: { 200: schemaFor<ContentionSnapshot>()(snapshot) },
  mutates: false,
}
