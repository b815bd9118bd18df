import { Counter, Registry } from 'prom-client'
import type { Contention } from '../../../contention/index.ts'
import { type Clock, systemClock } from '../../../core/clock.ts'
import type { ErrorCode } from '../../../core/errors.ts'
import type { Loop } from '../../../core/loop.ts'
import { version } from '../../../core/version.ts'
import type { JobState } from '../../../jobs/index.ts'
import type { Monitor } from '../../../monitor/index.ts'
import type { Route } from '../../contract/index.ts'
import { type RefusalReason, refusalReasons } from '../log/refusals.ts'
import type { History } from './activity-history.ts'
import { createJobMeter, type MeteredJob } from './job-meter.ts'
import {
  createHistogramCell,
  type Family,
  type HistogramCell,
  printFamilies,
  soonBounds,
  type Value,
  waitFamilies,
  watchProcess,
} from './metric-series.ts'
import { knownProblemsOf, problemFamilies } from './monitor-problems.ts'
import { type NodesSpace, nodeFamilies } from './node-gauges.ts'
import {
  type CountedSpace,
  capped,
  type NamespaceSendings,
  onceFamilies,
  sendingFamilies,
} from './once-meter.ts'
import { createQueueGauges, type MeteredSpace } from './queue-gauges.ts'

/**
 * What operators watch. The parts of the server tell it what happens, at the cost of an addition; everything else is
 * done when somebody scrapes. A scrape shows the namespaces its caller may see, and a broken store makes it shorter,
 * never an error.
 */
export interface Metrics {
  /** A request has come in. Every one of them ends with `request`. */
  requestBegan(): void
  /** It was answered, or its client has gone. `routeId` is undefined when there is no such route. */
  request(routeId: string | undefined, status: number, seconds: number): void
  streamOpened(): void
  /** `dropped`: by us, because its reader was too slow. */
  streamClosed(how: 'ended' | 'dropped'): void
  /** A claim begins to wait for a job. */
  claimWaits(): void
  claimWaited(): void
  /** So many jobs were put in line. */
  added(namespace: string, count: number): void
  /** Jobs were handed out. */
  claimed(namespace: string, jobs: readonly MeteredJob[]): void
  /** An attempt ended, and left its job in this state. */
  settled(namespace: string, jobId: string, state: JobState): void
  /** The store failed a request, or something of ours that asks it. */
  storeFailed(code: ErrorCode): void
  /** Something was refused or cut below HTTP. */
  refused(reason: RefusalReason): void
  /** What an operator did could not be written to the audit. */
  auditFailed(): void
  /** Everything its caller may see, in the text format of Prometheus. */
  text(view: MetricsView): Promise<string>
}

/** A namespace that is shown. */
export type MetricsSpace = MeteredSpace &
  CountedSpace &
  NodesSpace & { readonly monitor?: Pick<Monitor, 'problems'> }

/** Counts what happens in a module. */
export interface ModuleMeter {
  /** What was counted, of one namespace or of all. */
  families(namespace: string | undefined): readonly Family[]
}

/** Who looks. */
export interface MetricsView {
  /** The caller's own namespace. */
  readonly space: MetricsSpace
  /** Whether it may see the others, too. */
  readonly everyNamespace: boolean
}

/** What metrics are taken from. */
export interface MetricsParts {
  readonly routes: readonly Pick<Route, 'id'>[]
  /** The namespaces in use. */
  spaces(): Iterable<MetricsSpace>
  /** What was sent from here. */
  sendings(): Iterable<NamespaceSendings>
  storeUp(): Promise<boolean>
  loops(): Iterable<Pick<Loop, 'name' | 'healthy' | 'restarts'>>
  /** How many lines the log has dropped. */
  logDropped(): number
  /** Who waits on whom. @default nothing is shown of it */
  readonly contention?: Pick<Contention, 'series'>
  /** What is counted of a module by namespace, where that is not the space's own. @default nothing */
  readonly moduleMeters?: readonly ModuleMeter[]
  /** Where the last hour is kept. @default nowhere */
  readonly history?: History
  /** @default the process's own */
  readonly clock?: Clock
}

interface RouteCells {
  /** By status. */
  readonly counts: number[]
  readonly seconds: HistogramCell
}

export function createMetrics(parts: MetricsParts): Metrics {
  const clock = parts.clock ?? systemClock
  const processRegistry = watchProcess()
  const jobMeter = createJobMeter(clock, parts.history)
  const queueGauges = createQueueGauges(clock)
  const unknownRoute = createRouteCells()
  const routes = new Map(parts.routes.map(({ id }) => [id, createRouteCells()]))
  const storeErrors = new Map<ErrorCode, number>()
  const registry = new Registry()
  const refusals = new Counter({
    name: 'signalbox_http_refused_total',
    help: 'What was refused or cut below HTTP, by reason.',
    labelNames: ['reason'],
    registers: [registry],
  })
  // Shown from the start, so that the first of a kind is an increase.
  for (const reason of refusalReasons) refusals.inc({ reason }, 0)
  const now = { inFlight: 0, streams: 0, waiting: 0 }
  const total = { streams: 0, dropped: 0, unaudited: 0 }

  function routeFamilies(): readonly Family[] {
    const all = [...routes, ['none', unknownRoute] as const].filter(([, { counts }]) => counts.length > 0)
    const name = 'signalbox_http_request_seconds'
    return [
      family('signalbox_http_requests_total', 'Requests by route and status.', 'counter', [
        ...all.flatMap(([route, { counts }]) => countsOf(route, counts)),
      ]),
      {
        name,
        help: 'How long a request took, its wait for a job included; streams until they ended.',
        type: 'histogram',
        values: all.flatMap(([route, { seconds }]) => seconds.values(name, { route })),
      },
    ]
  }

  function serverFamilies(isStoreUp: boolean): readonly Family[] {
    const loops = [...parts.loops()]
    const gauge = (name: string, help: string, value: number) => family(name, help, 'gauge', [plain(value)])
    const counter = (name: string, help: string, value: number) =>
      family(name, help, 'counter', [plain(value)])
    return [
      family('signalbox_info', 'Always 1; the label is the version.', 'gauge', [
        { labels: { version }, value: 1 },
      ]),
      gauge('signalbox_store_up', '1 when the store answers.', isStoreUp ? 1 : 0),
      family(
        'signalbox_store_errors_total',
        'What the store failed with, by code.',
        'counter',
        Array.from(storeErrors, ([code, value]) => ({ labels: { code }, value })),
      ),
      gauge('signalbox_http_requests_in_flight', 'Requests under way, streams included.', now.inFlight),
      gauge('signalbox_streams_open', 'Open streams of events.', now.streams),
      counter('signalbox_streams_total', 'Streams that were opened.', total.streams),
      counter(
        'signalbox_streams_dropped_total',
        'Streams cut off because their reader was too slow.',
        total.dropped,
      ),
      gauge('signalbox_claims_waiting', 'Claims that wait for a job.', now.waiting),
      family(
        'signalbox_loop_healthy',
        '1 while the steps of a background loop end well.',
        'gauge',
        loops.map(({ name, healthy }) => ({ labels: { loop: name }, value: healthy ? 1 : 0 })),
      ),
      family(
        'signalbox_loop_restarts_total',
        'How often a loop stood still and was begun anew.',
        'counter',
        loops.map(({ name, restarts }) => ({ labels: { loop: name }, value: restarts })),
      ),
      counter(
        'signalbox_audit_failed_total',
        'Acts of operators that could not be written to the audit.',
        total.unaudited,
      ),
      counter('signalbox_log_dropped_total', 'Log lines that nobody took in time.', parts.logDropped()),
    ]
  }

  return {
    requestBegan() {
      now.inFlight++
    },
    request(routeId, status, seconds) {
      now.inFlight--
      const cells = (routeId === undefined ? undefined : routes.get(routeId)) ?? unknownRoute
      cells.counts[status] = (cells.counts[status] ?? 0) + 1
      cells.seconds.observe(seconds)
    },
    streamOpened() {
      now.streams++
      total.streams++
    },
    streamClosed(how) {
      now.streams--
      if (how === 'dropped') total.dropped++
    },
    claimWaits() {
      now.waiting++
    },
    claimWaited() {
      now.waiting--
    },
    added(namespace, count) {
      parts.history?.added(namespace, count)
    },
    claimed: jobMeter.claimed,
    settled: jobMeter.settled,
    storeFailed(code) {
      storeErrors.set(code, (storeErrors.get(code) ?? 0) + 1)
    },
    refused(reason) {
      refusals.inc({ reason })
    },
    auditFailed() {
      total.unaudited++
    },

    async text({ space, everyNamespace }) {
      const others = everyNamespace ? [...parts.spaces()] : []
      const spaces = new Map([space, ...others].map((one) => [one.namespace, one]))
      const sendings = [...parts.sendings()].filter(
        ({ namespace }) => everyNamespace || namespace === space.namespace,
      )
      // Only where notifications are sent: a namespace without subscriptions has no such problem.
      const sending = new Set(sendings.map(({ namespace }) => namespace))
      const monitored = [...spaces.values()].filter(({ namespace }) => sending.has(namespace))
      const [queues, problems, isUp] = await Promise.all([
        queueGauges.families(spaces.values()),
        Promise.all(
          capped(monitored).flatMap(({ label, item: { monitor } }) =>
            monitor === undefined
              ? []
              : [
                  knownProblemsOf(monitor)
                    .recent()
                    .then((problems) => ({ label, problems })),
                ],
          ),
        ),
        // It has a deadline of its own.
        parts.storeUp().catch(() => false),
      ])
      const shown = everyNamespace ? undefined : space.namespace
      const text = printFamilies([
        ...serverFamilies(isUp && queues.ok),
        ...routeFamilies(),
        ...queues.families,
        ...jobMeter.families(shown),
        ...(parts.moduleMeters ?? []).flatMap((meter) => meter.families(shown)),
        ...(parts.contention ? waitFamilies(parts.contention) : []),
        ...onceFamilies(spaces.values()),
        ...sendingFamilies(sendings),
        ...problemFamilies(problems),
        ...nodeFamilies(spaces.values()),
      ])
      return `${text}${await registry.metrics()}\n${await processRegistry.metrics()}`
    },
  }
}

function createRouteCells(): RouteCells {
  return { counts: [], seconds: createHistogramCell(soonBounds) }
}

function countsOf(route: string, counts: readonly number[]): readonly Value[] {
  const values: Value[] = []
  // Skips the statuses that never were.
  counts.forEach((value, status) => {
    values.push({ labels: { route, status }, value })
  })
  return values
}

function plain(value: number): Value {
  return { labels: {}, value }
}

function family(name: string, help: string, type: Family['type'], values: readonly Value[]): Family {
  return { name, help, type, values }
}
