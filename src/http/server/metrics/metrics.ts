import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Contention } from '../../../contention/index.ts'
import { type Clock, systemClock } from '../../../core/clock.ts'
import type { ErrorCode } from '../../../core/errors.ts'
import type { Loop } from '../../../core/loop.ts'
import { version } from '../../../core/version.ts'
import type { SeriesRecorder, SeriesStore, SeriesTotal } from '../../../fleet/index.ts'
import { isReserved } from '../../../jobs/index.ts'
import type { Monitor } from '../../../monitor/index.ts'
import type { Route } from '../../contract/index.ts'
import type { Api } from '../api.ts'
import { type RefusalReason, refusalReasons } from '../log/log.ts'
import {
  type ScaledSpace,
  type SeriesSpace,
  scalingFamilies,
  seriesFamilies,
  totalsOf,
} from './fleet-families.ts'
import { createKnownAnswers, type KnownAnswers } from './known-answer.ts'
import { type CountLocks, createLockMeter } from './lock-meter.ts'
import {
  CappedSeries,
  counter,
  type Family,
  gauge,
  registerFamily,
  soonBounds,
  type Value,
  viewOf,
  watchProcess,
} from './metric-registry.ts'
import {
  type CountedSpace,
  capped,
  type NamespaceSendings,
  type NodesSpace,
  nodeFamilies,
  onceFamilies,
  problemFamilies,
  sendingFamilies,
  waitFamilies,
} from './module-gauges.ts'
import { knownProblemsOf } from './overview.ts'
import { type MeteredSpace, queueFamilies } from './queue-counts.ts'

/**
 * Metrics for operators. prom-client counts events; all other values are read at a scrape. A scrape shows the
 * namespaces that its caller may see. If the store fails, the scrape leaves out values, but never fails.
 */
export interface Metrics {
  /** A request arrived. Every request ends with a call of `request`. */
  requestBegan(): void
  /** The server answered the request, or its client left. `routeId` is undefined for an unknown route. */
  request(routeId: string | undefined, status: number, seconds: number): void
  streamOpened(): void
  /** `dropped`: the server cut the stream, because its reader was too slow. */
  streamClosed(how: 'ended' | 'dropped'): void
  /** A claim begins to wait for a job. */
  claimWaits(): void
  /** The wait of a claim ended. */
  claimWaited(): void
  /** The server dispatched a task to its first node, `waitedMs` after the submit. */
  taskPlaced(namespace: string, waitedMs: number): void
  /** Counts the locks of a namespace. */
  readonly countLocks: CountLocks
  /** The store failed a request. */
  storeFailed(code: ErrorCode): void
  /** The server refused or cut a connection below HTTP. */
  refused(reason: RefusalReason): void
  /** The server could not write an operator's action to the audit. */
  auditFailed(): void
  /** All metrics that the caller may see, in the text format of Prometheus. */
  text(view: MetricsView): Promise<string>
}

/** A namespace, as metrics read it. */
export type MetricsSpace = MeteredSpace &
  CountedSpace &
  NodesSpace & {
    readonly monitor?: Pick<Monitor, 'problems'>
    /** This server's counts of jobs. Undefined: the server does not count. */
    readonly activity?: Pick<SeriesRecorder, 'totals'> | undefined
    readonly stores: { readonly series?: Pick<SeriesStore, 'totals'> }
    /** The source of scaling advice. Undefined: the server does not count. */
    readonly scaled?: ScaledSpace | undefined
  }

/** The caller of a scrape. */
interface MetricsView {
  /** The caller's own namespace. */
  readonly space: MetricsSpace
  /** Whether the caller may see all namespaces. */
  readonly everyNamespace: boolean
}

/** The sources of the metrics. */
export interface MetricsParts {
  readonly routes: readonly Pick<Route, 'id'>[]
  /** The namespaces in use. */
  spaces(): Iterable<MetricsSpace>
  /** The notifications that this server has sent. */
  sendings(): Iterable<NamespaceSendings>
  storeUp(): Promise<boolean>
  loops(): Iterable<Pick<Loop, 'name' | 'healthy' | 'restarts'>>
  /** How many lines the log has dropped. */
  logDropped(): number
  /** Which calls wait for which holders. @default not shown */
  readonly contention?: Pick<Contention, 'series'>
  /** @default the process's own */
  readonly clock?: Clock
}

/** The number of namespaces with their own dispatch times; all others share `other`. */
const maxNamespaces = 100

export function createMetrics(parts: MetricsParts): Metrics {
  const clock = parts.clock ?? systemClock
  const registry = new Registry()
  const counters = createCounters(registry)
  const countLocks = createLockMeter(registry, clock)
  const routes = new Map(parts.routes.map(({ id }) => [id, counters.requestSeconds.labels({ route: id })]))
  const placed = new CappedSeries({
    labelNames: ['namespace'],
    limit: maxNamespaces,
    create: (labels) => counters.dispatchSeconds.labels(labels),
    remove: (labels) => counters.dispatchSeconds.remove(labels),
  })

  function serverFamilies(isStoreUp: boolean): readonly Family[] {
    const loops = [...parts.loops()]
    const plain = (value: number): Value[] => [{ labels: {}, value }]
    return [
      gauge('signalbox_info', 'Always 1; the label is the version.', [{ labels: { version }, value: 1 }]),
      gauge('signalbox_store_up', '1 when the store answers.', plain(isStoreUp ? 1 : 0)),
      gauge(
        'signalbox_loop_healthy',
        '1 while the steps of a background loop succeed.',
        loops.map(({ name, healthy }) => ({ labels: { loop: name }, value: healthy ? 1 : 0 })),
      ),
      counter(
        'signalbox_loop_restarts_total',
        'How often a loop was stuck and was started again.',
        loops.map(({ name, restarts }) => ({ labels: { loop: name }, value: restarts })),
      ),
      counter(
        'signalbox_log_dropped_total',
        'Log lines that were dropped because the destination was too slow.',
        plain(parts.logDropped()),
      ),
    ]
  }

  return {
    requestBegan: () => counters.inFlight.inc(),
    request(routeId, status, seconds) {
      const times = routeId === undefined ? undefined : routes.get(routeId)
      const route = times === undefined ? 'none' : routeId!
      counters.inFlight.dec()
      counters.requests.inc({ route, status })
      if (times === undefined) counters.requestSeconds.observe({ route }, seconds)
      else times.observe(seconds)
    },
    streamOpened() {
      counters.streamsOpen.inc()
      counters.streams.inc()
    },
    streamClosed(how) {
      counters.streamsOpen.dec()
      if (how === 'dropped') counters.streamsDropped.inc()
    },
    claimWaits: () => counters.claimsWaiting.inc(),
    claimWaited: () => counters.claimsWaiting.dec(),
    taskPlaced: (namespace, waitedMs) => placed.find([namespace], clock.now()).observe(waitedMs / 1_000),
    countLocks,
    storeFailed: (code) => counters.storeErrors.inc({ code }),
    refused: (reason) => counters.refusals.inc({ reason }),
    auditFailed: () => counters.auditFailures.inc(),

    async text({ space, everyNamespace }) {
      const others = everyNamespace ? [...parts.spaces()] : []
      const spaces = new Map([space, ...others].map((one) => [one.namespace, one]))
      const sendings = [...parts.sendings()].filter(
        ({ namespace }) => spaces.has(namespace) || everyNamespace,
      )
      const [queues, series, scaling, problems, isUp] = await Promise.all([
        queueFamilies(spaces.values()),
        seriesOf(spaces.values()),
        scalingFamilies([...spaces.values()].flatMap(({ scaled }) => scaled ?? [])),
        problemsOf(spaces.values(), sendings),
        // `storeUp` has its own deadline.
        parts.storeUp().catch(() => false),
      ])
      const read = new Registry()
      for (const family of [
        ...serverFamilies(isUp && queues.ok),
        ...queues.families,
        ...seriesFamilies(series),
        ...scaling,
        ...(parts.contention ? waitFamilies(parts.contention) : []),
        ...onceFamilies(spaces.values()),
        ...sendingFamilies(sendings),
        ...problemFamilies(problems),
        ...nodeFamilies(spaces.values()),
      ])
        registerFamily(read, family)
      const counted = everyNamespace ? registry : await viewOf(registry, space.namespace)
      const texts = await Promise.all([read, counted, watchProcess()].map((one) => one.metrics()))
      return texts.join('\n')
    },
  }
}

/** While the store does not answer, shows the last totals of the fleet, or none. */
const fleetTotalsOf: KnownAnswers<Pick<SeriesStore, 'totals'>, readonly SeriesTotal[]> = createKnownAnswers(
  async (store) => totalsOf((await store.totals()).filter(({ queue }) => !isReserved(queue))),
  [],
)

function seriesOf(spaces: Iterable<MetricsSpace>): Promise<readonly SeriesSpace[]> {
  const counting = [...spaces].filter(({ activity }) => activity !== undefined)
  return Promise.all(
    counting.map(async ({ namespace, activity, stores }) => {
      const fleet = stores.series === undefined ? [] : await fleetTotalsOf(stores.series)
      return { namespace, totals: { fleet, process: activity!.totals() } }
    }),
  )
}

/** Reads only namespaces for which this server sends: a namespace without subscriptions has no such problem. */
function problemsOf(
  spaces: Iterable<MetricsSpace>,
  sendings: readonly NamespaceSendings[],
): Promise<Parameters<typeof problemFamilies>[0]> {
  const sending = new Set(sendings.map(({ namespace }) => namespace))
  const monitored = [...spaces].flatMap(({ namespace, monitor }) =>
    monitor !== undefined && sending.has(namespace) ? [{ namespace, monitor }] : [],
  )
  const known = capped(monitored).map(async ({ label, item: { monitor } }) => ({
    label,
    problems: await knownProblemsOf(monitor),
  }))
  return Promise.all(known)
}

/** The counters of the server itself. */
function createCounters(registry: Registry) {
  const registers = [registry]
  const count = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name, help, labelNames, registers })
  const now = (name: string, help: string) => new Gauge({ name, help, registers })
  const times = (name: string, help: string, label: string) =>
    new Histogram({ name, help, labelNames: [label], buckets: soonBounds, registers })
  const refusals = count(
    'signalbox_http_refused_total',
    'Connections refused or cut below HTTP, by reason.',
    'reason',
  )
  // Shows all reasons from the start, so that the first event of each is visible as an increase.
  for (const reason of refusalReasons) refusals.inc({ reason }, 0)
  return {
    refusals,
    requests: count('signalbox_http_requests_total', 'Requests by route and status.', 'route', 'status'),
    requestSeconds: times(
      'signalbox_http_request_seconds',
      'How long a request took, including its wait for a job; for a stream, until its end.',
      'route',
    ),
    inFlight: now('signalbox_http_requests_in_flight', 'Requests in flight, including streams.'),
    streamsOpen: now('signalbox_streams_open', 'Open streams of events.'),
    streams: count('signalbox_streams_total', 'Streams that were opened.'),
    streamsDropped: count(
      'signalbox_streams_dropped_total',
      'Streams cut because their reader was too slow.',
    ),
    claimsWaiting: now('signalbox_claims_waiting', 'Claims that wait for a job.'),
    storeErrors: count('signalbox_store_errors_total', 'Failures of the store, by code.', 'code'),
    auditFailures: count(
      'signalbox_audit_failed_total',
      'Acts of operators that could not be written to the audit.',
    ),
    dispatchSeconds: times(
      'signalbox_dispatch_seconds',
      'From submitting a task to giving it to its first node, by this server; later attempts are not counted.',
      'namespace',
    ),
  }
}

/**
 * Records requests as commands of the contention recorder: `http.<route>`. A request waits while the store works for
 * it, and holds otherwise. The time in which a claim waits for a job counts as neither.
 */
interface RequestMeter {
  /** Wraps the API to record its requests. */
  meter(api: Api): Api
  /** Sets the route of the current request. */
  setRoute(route: Route | undefined): void
  /** The current request begins to wait for a job. */
  pause(): void
  /** The current request no longer waits for a job. */
  resume(): void
}

/** Reports only unusual waits: with a distant store or a slow disk, every request waits. */
const warnMs = 1_000

export function createRequestMeter(
  contention: Contention,
  routes: readonly Pick<Route, 'id'>[],
): RequestMeter {
  const kindOf = (id: string) => contention.kind(`http.${id}`, { warnMs })
  const unknown = kindOf('none')
  const kinds = new Map(routes.map(({ id }) => [id, kindOf(id)]))
  return {
    meter(api) {
      if (!contention.enabled) return api
      return {
        answer: (incoming, requestId) =>
          contention.during(unknown, () => api.answer(incoming, requestId), requestId),
      }
    },
    setRoute: (route) => contention.command.is((route && kinds.get(route.id)) ?? unknown),
    pause: () => contention.command.rest(),
    resume: () => contention.command.resume(),
  }
}
