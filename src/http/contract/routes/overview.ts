import type { Scope } from '../../../access/index.ts'
import type { ContentionSnapshot } from '../../../contention/index.ts'
import type { Duration } from '../../../core/duration.ts'
import type {
  Scaling,
  ScalingRequest,
  Series,
  SeriesItem,
  SeriesNumbers,
  SeriesPoint,
  SeriesRequest,
  Times,
} from '../../../fleet/index.ts'
import type { QueueStats } from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import { object, oneOf, part, type Schema, strictObject, Type } from '../schema.ts'
import { count, instant, name, orNull, waitMs } from '../values.ts'
import { queueStatsSchema } from './queues.ts'
import { type Readiness, readinessSchema } from './system.ts'

/** The first routes of a dashboard: the caller's identity, and the state of the system. */

/** The identity and rights of the caller, and facts about the server. */
export interface Me {
  /** The token's id, or `local`. */
  readonly id: string
  readonly name: string | null
  readonly scope: Scope
  /** The namespace of this request. */
  readonly namespace: string
  /** Whether the caller may use every namespace. */
  readonly everyNamespace: boolean
  /** Up to 200 namespaces in use on this server that the caller may use. */
  readonly namespaces: readonly string[]
  readonly server: {
    readonly version: string
    readonly engine: string
    /** Weaknesses in the setup of the engine. */
    readonly warnings: readonly string[]
  }
}

export const whoAmI: Route<{ reply: Me }> = {
  ...route('access', 'whoAmI', 'GET /v1/me', 'read'),
  summary: 'Get the identity and rights of the caller, and facts about the server.',
  replies: {
    200: object({
      id: Type.String(),
      name: orNull(Type.String()),
      scope: oneOf('read', 'work', 'admin'),
      namespace: Type.String(),
      everyNamespace: Type.Boolean(),
      namespaces: Type.Array(Type.String()),
      server: Type.Object({
        version: Type.String(),
        engine: Type.String(),
        warnings: Type.Array(Type.String()),
      }),
    }),
  },
}

const problemKinds = [
  'check_failed',
  'dead_jobs',
  'queue_paused',
  'queue_behind',
  'no_worker',
  'unknown_kind',
  'no_nodes',
  'dead_notifications',
  'channel_sealed',
  'clock_jump',
] as const

/** A problem that needs attention. */
export interface OverviewProblem {
  /**
   * `check_failed`: the server is not ready, see `subject`. `dead_jobs`, `queue_paused` (with jobs that wait),
   * `queue_behind` (the oldest ready job waits for long), `no_worker` (the same, and no live worker takes the queue):
   * `subject` is the queue. `unknown_kind`: jobs of this kind wait, and no live worker of their queue knows it.
   * `no_nodes`: tasks wait and no node is there. `dead_notifications`: notifications were given up; `channel_sealed`:
   * notifications wait, because the channel is sealed with a key that the server does not have; `subject` is the name
   * of the subscription. `clock_jump`: the store's clock was set within the last hour; `subject` is by how much.
   */
  readonly kind: ProblemKind
  readonly subject: string
  /** The number of affected things. */
  readonly count: number
  /** When the problem began, if known. */
  readonly since: number | null
  readonly detail: string | null
}
type ProblemKind = (typeof problemKinds)[number]

/** The work of all processes on the store within one step, and the sizes of the queues. */
interface OverviewSample {
  /** When the step began. */
  readonly at: number
  readonly added: number
  readonly completed: number
  /** Attempts that failed and are tried again. */
  readonly retried: number
  /** Jobs that failed for good. */
  readonly dead: number
  /** The time from when a job was ready until a claim took it; null without claims. */
  readonly waitP50Ms: number | null
  readonly waitP99Ms: number | null
  /** How long attempts ran; null if none ended. */
  readonly runP50Ms: number | null
  readonly runP99Ms: number | null
  /** The numbers of ready and running jobs; null if they were not counted. */
  readonly ready: number | null
  readonly running: number | null
}

export interface Overview {
  readonly at: number
  readonly readiness: Readiness
  readonly problems: readonly OverviewProblem[]
  readonly queues: readonly QueueStats[]
  /**
   * True if the count did not end within `waitMs`: `queues` has the previous counts, or is empty. Left out otherwise.
   */
  readonly counting?: boolean
  /** The samples of up to an hour, oldest first, without empty steps. */
  readonly history: {
    readonly stepMs: number
    readonly since: number
    readonly samples: readonly OverviewSample[]
  }
}

export interface OverviewQuery {
  /** Only samples that began then or later. */
  readonly since?: number
  /** How long to wait for a count of very many jobs. @default until it ends */
  readonly waitMs?: number
}

const msOrNull = orNull(Type.Number({ minimum: 0 }))
export const getOverview: Route<{ query: OverviewQuery; reply: Overview }> = {
  ...route('system', 'getOverview', 'GET /v1/overview', 'read'),
  summary: 'Get problems, health, queues, and the last hour.',
  description:
    '`history` has what all processes on the store did in the last hour, by minute; `GET /v1/metrics/series` has ' +
    'more. Processes write their counts every ten seconds. The counts of queues and `waitMs` are those of `GET ' +
    '/v1/queues`.',
  query: strictObject({ since: Type.Optional(instant), waitMs: Type.Optional(waitMs) }),
  replies: {
    200: object({
      at: instant,
      readiness: part(readinessSchema),
      problems: Type.Array(
        Type.Object({
          kind: oneOf(...problemKinds),
          subject: name,
          count,
          since: orNull(instant),
          detail: orNull(Type.String()),
        }),
      ),
      queues: Type.Array(part(queueStatsSchema)),
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
  },
}

/** The route of contention: which calls wait for which others, and how long, in the server that answers. */

const ms = Type.Number({ minimum: 0 })
const nameOrNull = orNull(Type.String())

const distribution = Type.Object({
  count,
  sumMs: ms,
  maxMs: ms,
  p50Ms: ms,
  p90Ms: ms,
  p99Ms: ms,
  p999Ms: ms,
})

const snapshot: Schema<ContentionSnapshot> = object({
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
  ...route('contention', 'getContention', 'GET /v1/contention', 'read'),
  summary: 'Get who waited on whom, and how long, in this server.',
  description:
    'Waits and holds by kind of command, the matrix of waiters and holders (`gc`, `event-loop`, `host` and ' +
    '`store` are holders too), lanes, the slowest turns of the last one to two hours, and waits for locks by key. ' +
    'The data is of one process: ask each server. A token of one namespace sees only its own keys, and not the ' +
    'subjects of the slowest turns.',
  replies: { 200: snapshot },
}

/** The work of the fleet over time: all processes on the store. Every server answers the same. */

/** A query has no types, so digits alone are milliseconds. */
const spanText = Type.Unsafe<Duration>(Type.String({ pattern: '^\\d{1,12}(\\.\\d{1,3})?(ms|s|m|h|d)?$' }))

const times = part<Times>(object({ count, sumMs: ms, p50Ms: ms, p90Ms: ms, p99Ms: ms }))
const numbers = {
  ...{ added: count, started: count, completed: count, failed: count, dead: count, cancelled: count },
  wait: orNull(times),
  waitMsBy: Type.Unsafe<SeriesNumbers['waitMsBy']>(
    Type.Object({
      queue: Type.Optional(ms),
      limit: Type.Optional(ms),
      lock: Type.Optional(ms),
      dependency: Type.Optional(ms),
      noWorker: Type.Optional(ms),
    }),
  ),
  run: orNull(times),
  ...{ ready: orNull(count), running: orNull(count) },
}
const item = part<SeriesItem>(
  object({
    ...{ queue: orNull(Type.String()), kind: orNull(Type.String()) },
    total: part<SeriesNumbers>(object(numbers)),
    points: Type.Array(part<SeriesPoint>(object({ at: instant, ...numbers }))),
  }),
)

export const getSeries: Route<{ query: SeriesRequest; reply: Series }> = {
  ...route('system', 'getSeries', 'GET /v1/metrics/series', 'read'),
  summary: 'Get counts and times of jobs over time, of all processes on the store.',
  description:
    'By default the last hour by minute, as one item. `step` is a number of whole minutes, in milliseconds or as ' +
    '`10m`. `queue` and `kind` choose, `by` (`queue` or `kind`) gives one item for each, those with the most jobs ' +
    'first, up to 100. Steps in which nothing was counted are left out; the step in which `now` lies is under way. ' +
    'Minutes are kept for 48 hours and hours for 90 days by default. `failed` attempts are tried again; `dead` ' +
    'jobs are not. `ready` and `running` are the most jobs that a server saw in the step.',
  query: strictObject({
    from: Type.Optional(instant),
    to: Type.Optional(instant),
    step: Type.Optional(spanText),
    queue: Type.Optional(name),
    kind: Type.Optional(name),
    by: Type.Optional(oneOf('queue', 'kind')),
  }),
  replies: {
    200: object({
      ...{ now: instant, from: instant, to: instant, stepMs: count },
      items: Type.Array(item),
      isFolded: Type.Boolean(),
    }),
  },
}

export const getScaling: Route<{ query: ScalingRequest; reply: Scaling }> = {
  ...route('system', 'getScaling', 'GET /v1/scaling', 'read'),
  summary: 'Get how many workers of a queue, or nodes of a service, the work calls for, and why.',
  description:
    'Give `queue` or `service`. `wanted` keeps up with what arrived in the last five minutes, and works off what ' +
    'waits within `drain` (a minute by default). It never exceeds what the limits of the queue let run, and jobs ' +
    'that wait for others or for a lock call for no worker. `slots` is how many jobs a worker or node runs at once; by ' +
    'default the average of those that live, or 10. Tasks of a service are those that wait at the server that answers.',
  query: strictObject({
    queue: Type.Optional(name),
    service: Type.Optional(name),
    drain: Type.Optional(spanText),
    slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
  }),
  replies: {
    200: object({
      at: instant,
      ...{ queue: orNull(Type.String()), service: orNull(Type.String()) },
      ...{ wanted: count, live: count, reason: Type.String() },
      boundBy: orNull(oneOf('paused', 'concurrency', 'rate')),
      ...{ slots: count, slotsPerMember: count, waiting: count, running: count, blocked: count },
      oldestMs: orNull(ms),
      ...{ arrivalPerSecond: ms, servicePerSecond: ms },
      runMs: orNull(ms),
    }),
  },
}
