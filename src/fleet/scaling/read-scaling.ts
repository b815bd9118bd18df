import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { taskQueue } from '../../core/job-words.ts'
import { duration, onlyKeys, text, whole } from '../../core/options.ts'
import type { QueueStats } from '../../jobs/index.ts'
import { isOfKind, minuteMs, SeriesCell, stepAt } from '../rules/index.ts'
import type { SeriesStore } from '../series/series-store.ts'
import { type FleetWorker, showWorker, type WorkerStore } from '../workers/index.ts'
import { decideScaling, type ScalingBound, type ScalingFacts } from './decide-scaling.ts'

/** What to scale: either the workers of a queue, or the nodes of a service. */
export interface ScalingRequest {
  readonly queue?: string | undefined
  readonly service?: string | undefined
  /** The time in which the waiting jobs should be finished. @default '1m' */
  readonly drain?: Duration | undefined
  /**
   * The number of jobs that a worker, or a node, runs at once. @default the average of the live ones; 10 without any
   */
  readonly slots?: number | undefined
}

/** The number of workers or nodes that the work needs, and why. */
export interface Scaling extends Omit<ScalingFacts, 'isPaused' | 'limits'> {
  /** The store's clock. */
  readonly at: number
  readonly queue: string | null
  readonly service: string | null
  /** The number of workers or nodes that there should be. */
  readonly wanted: number
  /** The number of live workers or nodes. */
  readonly live: number
  /** The reason for `wanted`, in words. */
  readonly reason: string
  /** The limit because of which more would not help; null: none. */
  readonly boundBy: ScalingBound | null
  /** The number of jobs that should run at once. */
  readonly slots: number
}

/** The sources of scaling. */
export interface ScalingParts {
  readonly series: Pick<SeriesStore, 'now' | 'read'>
  readonly workers: Pick<WorkerStore, 'list'>
  queues(): Promise<readonly QueueStats[]>
  /** The nodes and waiting tasks of a service, at all servers. Left out where no nodes can connect. */
  service?(service: string): Promise<ServiceSight>
}

/** The nodes and tasks of a service, at all servers. */
export interface ServiceSight {
  readonly waiting: number
  readonly oldestWaitMs: number
  readonly slots: number
  readonly used: number
  readonly nodes: number
}

/** The time over which rates are measured, including the present minute. */
const rateMs = 5 * minuteMs
const defaultDrainMs = 60_000
const defaultSlots = 10
const maxWorkers = 1_000

/** Reads how many workers or nodes the work needs. Throws `invalid_argument`. */
export async function readScaling(parts: ScalingParts, request: ScalingRequest): Promise<Scaling> {
  onlyKeys('scaling', request, ['queue', 'service', 'drain', 'slots'])
  const { queue, service } = request
  if ((queue === undefined) === (service === undefined))
    throw new SignalboxError('invalid_argument', 'scaling needs a queue or a service, and not both.')
  const drainMs =
    request.drain === undefined
      ? defaultDrainMs
      : duration('scaling.drain', request.drain, { min: 1_000, max: 86_400_000 })
  const slots =
    request.slots === undefined ? undefined : whole('scaling.slots', request.slots, { min: 1, max: 100_000 })
  if (service !== undefined) return ofService(parts, text('scaling.service', service), drainMs, slots)
  return ofQueue(parts, text('scaling.queue', queue), drainMs, slots)
}

async function ofQueue(
  parts: ScalingParts,
  queue: string,
  drainMs: number,
  slots: number | undefined,
): Promise<Scaling> {
  const [queues, live, { now, counted }] = await Promise.all([
    parts.queues(),
    listClaimers(parts.workers, queue),
    recentCounts(parts.series, { queue }),
  ])
  const stats = queues.find((one) => one.queue === queue)
  const known = live.flatMap(({ concurrency }) => (concurrency === null ? [] : [concurrency]))
  const average = known.length === 0 ? defaultSlots : known.reduce((sum, one) => sum + one, 0) / known.length
  const oldestReadyAt = stats?.oldestReadyAt ?? null
  const sight: ScalingFacts = {
    ...{ waiting: stats?.ready ?? 0, running: stats?.running ?? 0, blocked: stats?.waiting ?? 0 },
    oldestMs: oldestReadyAt === null ? null : Math.max(0, now - oldestReadyAt),
    ...ratesOf(counted),
    ...{ isPaused: stats?.paused ?? false, limits: stats?.limits ?? null },
    slotsPerMember: slots ?? Math.max(1, Math.round(average)),
  }
  return answer({ at: now, queue, service: null, live: live.length }, sight, drainMs, 'workers')
}

async function ofService(
  parts: ScalingParts,
  service: string,
  drainMs: number,
  slots: number | undefined,
): Promise<Scaling> {
  if (parts.service === undefined)
    throw new SignalboxError(
      'invalid_argument',
      'Nodes connect to servers. Ask a server for the scaling of a service.',
    )
  const [sight, { now: at, counted }] = await Promise.all([
    parts.service(service),
    recentCounts(parts.series, { queue: taskQueue, kind: service }),
  ])
  const { waiting, used, oldestWaitMs, nodes } = sight
  const scaled: ScalingFacts = {
    ...{ waiting, running: used, blocked: 0, isPaused: false, limits: null },
    oldestMs: waiting === 0 ? null : Math.max(0, oldestWaitMs),
    ...ratesOf(counted),
    slotsPerMember: slots ?? (nodes === 0 ? 1 : Math.max(1, Math.round(sight.slots / nodes))),
  }
  return answer({ at, queue: null, service, live: nodes }, scaled, drainMs, 'nodes')
}

function answer(
  about: Pick<Scaling, 'at' | 'queue' | 'service' | 'live'>,
  sight: ScalingFacts,
  drainMs: number,
  members: string,
): Scaling {
  const { limits: _, isPaused: __, ...shown } = sight
  return { ...about, ...decideScaling(sight, drainMs, members), ...shown }
}

/** Live workers that take jobs of the queue. */
async function listClaimers(
  store: Pick<WorkerStore, 'list'>,
  queue: string,
): Promise<readonly FleetWorker[]> {
  const { workers, now } = await store.list({ limit: maxWorkers })
  return workers
    .map((record) => showWorker(record, now))
    .filter(({ state, queues }) => state === 'running' && queues.includes(queue))
}

function ratesOf({
  added,
  completed,
  failed,
  dead,
  run,
}: SeriesCell): Pick<ScalingFacts, 'arrivalPerSecond' | 'servicePerSecond' | 'runMs'> {
  const seconds = rateMs / 1_000
  return {
    arrivalPerSecond: added / seconds,
    servicePerSecond: (completed + failed + dead) / seconds,
    runMs: run.isEmpty ? null : run.sumMs / run.count,
  }
}

async function recentCounts(
  store: Pick<SeriesStore, 'now' | 'read'>,
  of: { readonly queue: string; readonly kind?: string },
): Promise<{ readonly now: number; readonly counted: SeriesCell }> {
  const now = await store.now()
  // The present minute counts as a whole minute, so the first minute is left out.
  const from = stepAt(now, minuteMs) - rateMs + minuteMs
  const { rows } = await store.read({ from, to: now + minuteMs, stepMs: minuteMs, ...of })
  const counted = new SeriesCell()
  for (const row of rows) if (isOfKind(row)) counted.addValues(row)
  return { now, counted }
}
