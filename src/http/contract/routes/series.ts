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
import { type Route, route } from '../route.ts'
import { objectFor, oneOf, strictFor, Type } from '../schema.ts'
import { count, instant, name, orNull } from '../values.ts'

/** What the fleet does, over time: all processes on the store, whichever server answers. */

/** In a query there are no types: milliseconds are digits alone. */
const spanText = Type.Unsafe<Duration>(Type.String({ pattern: '^\\d{1,12}(\\.\\d{1,3})?(ms|s|m|h|d)?$' }))
const ms = Type.Number({ minimum: 0 })

const times = Type.Unsafe<Times>(objectFor<Times>()({ count, sumMs: ms, p50Ms: ms, p90Ms: ms, p99Ms: ms }))
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
const item = Type.Unsafe<SeriesItem>(
  objectFor<SeriesItem>()({
    ...{ queue: orNull(Type.String()), kind: orNull(Type.String()) },
    total: Type.Unsafe<SeriesNumbers>(objectFor<SeriesNumbers>()(numbers)),
    points: Type.Array(Type.Unsafe<SeriesPoint>(objectFor<SeriesPoint>()({ at: instant, ...numbers }))),
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
  query: strictFor<SeriesRequest>()({
    from: Type.Optional(instant),
    to: Type.Optional(instant),
    step: Type.Optional(spanText),
    queue: Type.Optional(name),
    kind: Type.Optional(name),
    by: Type.Optional(oneOf('queue', 'kind')),
  }),
  replies: {
    200: objectFor<Series>()({
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
  query: strictFor<ScalingRequest>()({
    queue: Type.Optional(name),
    service: Type.Optional(name),
    drain: Type.Optional(spanText),
    slots: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
  }),
  replies: {
    200: objectFor<Scaling>()({
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
