import { dispatchQueue, isKindOf } from '../../../dispatch/index.ts'
import {
  readScaling,
  type Scaling,
  type ScalingParts,
  type SeriesTotal,
  type ServiceSight,
} from '../../../fleet/index.ts'
import { Histogram, SeriesCell, type WaitCause } from '../../../fleet/rules/index.ts'
import { isReserved } from '../../../jobs/index.ts'
import type { Space } from '../namespace-services.ts'
import { createKnownAnswers, type KnownAnswers } from './known-answer.ts'
import { bucketsOf, counter, type Family, gauge, type Value } from './metric-registry.ts'
import { capped } from './module-gauges.ts'
import { queueCountsOf } from './queue-counts.ts'

/**
 * Counts and times of jobs for Prometheus, read at a scrape. `source="fleet"` has the totals of all processes on the
 * store; every server shows the same. `source="process"` counts only the jobs that passed through this server. Up to
 * 100 namespaces and 100 queues have their own times, and all others share `other`. The store limits the number of
 * kinds.
 */
export interface SeriesSpace {
  readonly namespace: string
  readonly totals: Readonly<Record<Source, readonly SeriesTotal[]>>
}
type Source = (typeof sources)[number]
const sources = ['fleet', 'process'] as const

const outcomes = ['completed', 'failed', 'dead', 'cancelled'] as const
const maxQueues = 100

export function seriesFamilies(spaces: Iterable<SeriesSpace>): readonly Family[] {
  const lines = sources.flatMap((source) =>
    capped(spaces).flatMap(({ label: namespace, item }) =>
      item.totals[source].map((total) => ({ source, namespace, ...shownNames(total), cell: total.cell })),
    ),
  )
  const kinds = addUp(lines, ({ source, namespace, queue, kind }) => ({
    source,
    namespace,
    queue,
    name: kind,
  }))
  const queues = capQueues(addUp(lines, ({ source, namespace, queue }) => ({ source, namespace, queue })))
  return [
    counter(
      'signalbox_jobs_added_total',
      'Jobs that were added.',
      kinds.map(({ labels, cell }) => ({ labels, value: cell.added })),
    ),
    counter(
      'signalbox_jobs_started_total',
      'Attempts that began.',
      kinds.map(({ labels, cell }) => ({ labels, value: cell.started })),
    ),
    counter(
      'signalbox_jobs_total',
      'Attempts and jobs that ended, by outcome: failed attempts are tried again, dead jobs are not.',
      // Shows all outcomes from the start, so that the first event of each is visible as an increase.
      kinds.flatMap(({ labels, cell }) =>
        outcomes.map((outcome) => ({ labels: { ...labels, outcome }, value: cell[outcome] })),
      ),
    ),
    {
      name: 'signalbox_job_wait_seconds',
      help: 'From when a job was due until its attempt began, by cause.',
      type: 'histogram',
      values: queues.flatMap(({ labels, cell }) =>
        waitsOf(cell).flatMap(([cause, times]) =>
          valuesOf('signalbox_job_wait_seconds', { ...labels, cause }, times),
        ),
      ),
    },
    {
      name: 'signalbox_job_run_seconds',
      help: 'How long attempts ran.',
      type: 'histogram',
      values: queues.flatMap(({ labels, cell }) => valuesOf('signalbox_job_run_seconds', labels, cell.run)),
    },
  ]
}

type Labels = Readonly<Record<string, string>>
interface Line {
  readonly labels: Labels
  readonly cell: SeriesCell
}

/** The store has one row without names for all kinds above its limit. */
function shownNames({ queue, kind }: SeriesTotal): { readonly queue: string; readonly kind: string } {
  return { queue: queue === '' ? 'other' : queue, kind: kind === '' ? 'other' : kind }
}

function addUp<Given extends { readonly cell: SeriesCell }>(
  lines: readonly Given[],
  labelsOf: (line: Given) => Labels,
): readonly Line[] {
  const sums = new Map<string, Line>()
  for (const line of lines) {
    const labels = labelsOf(line)
    const key = Object.values(labels).join('\n')
    const sum = sums.get(key) ?? { labels, cell: new SeriesCell() }
    sums.set(key, sum)
    sum.cell.add(line.cell)
  }
  return [...sums.values()]
}

/** Chooses queues by name, so that every scrape shows the same ones. */
function capQueues(lines: readonly Line[]): readonly Line[] {
  const names = new Set(
    lines
      .map(({ labels }) => nameOf(labels))
      .sort()
      .filter((name, at, all) => name !== all[at - 1])
      .slice(0, maxQueues),
  )
  return addUp(lines, ({ labels }) =>
    names.has(nameOf(labels)) ? labels : { ...labels, namespace: 'other', queue: 'other' },
  )
}

function nameOf({ namespace, queue }: Labels): string {
  return `${namespace}\n${queue}`
}

/** Always shows waits in the queue, and other causes only if they occurred. */
function waitsOf({ waits }: SeriesCell): readonly (readonly [WaitCause, Histogram])[] {
  return waits.has('queue') ? [...waits] : [['queue', new Histogram()], ...waits]
}

/** From five milliseconds to some hours. Each is also a bound of the stored histograms. */
const shownMs = [
  5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
  10_000_000,
]

function valuesOf(name: string, labels: Labels, times: Histogram): readonly Value[] {
  return bucketsOf(name, labels, shownMs, {
    within: times.within(shownMs),
    count: times.count,
    sumMs: times.sumMs,
  })
}

/** Turns rows of the store into totals. */
export function totalsOf(
  rows: readonly (Parameters<SeriesCell['addValues']>[0] & Omit<SeriesTotal, 'cell'>)[],
): readonly SeriesTotal[] {
  return rows.map((row) => {
    const cell = new SeriesCell()
    cell.addValues(row)
    return { queue: row.queue, kind: row.kind, cell }
  })
}

/** A namespace with scaling advice for its queues and services. */
export type ScaledSpace = Pick<Space, 'namespace' | 'stores' | 'dispatch'>

/** The inputs of scaling advice in a namespace of this server. It shares the counts of queues with other readers. */
export function scalingPartsOf(space: ScaledSpace): ScalingParts {
  const { stores } = space
  return {
    ...{ series: stores.series, workers: stores.workers },
    queues: async () => (await queueCountsOf(stores).recent()).lines,
    service: (service) => sightOf(space, service),
  }
}

/** Adds the tasks that wait in the store, because no server has claimed them yet. */
async function sightOf({ stores, dispatch }: ScaledSpace, service: string): Promise<ServiceSight> {
  const { kinds, now } = await stores.workers.readyKinds(dispatchQueue, maxKinds)
  const unclaimed = kinds.filter(({ kind }) => isKindOf(kind, service))
  const sight = dispatch.service(service)
  return {
    ...sight,
    waiting: unclaimed.reduce((sum, { count }) => sum + count, sight.waiting),
    oldestWaitMs: unclaimed.reduce(
      (longest, { oldestAt }) => Math.max(longest, now - oldestAt),
      sight.oldestWaitMs,
    ),
  }
}

const maxKinds = 5_000

/** The queues with the most jobs have their own gauge, per namespace. A gauge for `other` would be meaningless. */
const maxScaled = 50

const scalingsOf: KnownAnswers<ScaledSpace, readonly Scaling[]> = createKnownAnswers(async (space) => {
  const parts = scalingPartsOf(space)
  const lines = (await parts.queues()).filter(({ queue }) => !isReserved(queue))
  const size = (line: (typeof lines)[number]) => line.ready + line.running + line.waiting
  const largest = lines.toSorted((a, b) => size(b) - size(a)).slice(0, maxScaled)
  return Promise.all(largest.map(({ queue }) => readScaling(parts, { queue })))
}, [])

/** How many workers the queues need. While the store does not answer, shows the last values, or none. */
export async function scalingFamilies(spaces: Iterable<ScaledSpace>): Promise<readonly Family[]> {
  const shown = capped(spaces).filter(({ label, item }) => label === item.namespace)
  const all = await Promise.all(
    shown.map(async ({ label, item }) => {
      const scalings = await scalingsOf(item)
      return scalings.map((scaling) => ({ labels: { namespace: label, queue: scaling.queue! }, scaling }))
    }),
  )
  const valuesOf = (read: (scaling: Scaling) => number) =>
    all.flat().map(({ labels, scaling }): Value => ({ labels, value: read(scaling) }))
  return [
    gauge(
      'signalbox_scaling_wanted_workers',
      'How many workers the queue needs; GET /v1/scaling gives the reason.',
      valuesOf(({ wanted }) => wanted),
    ),
    gauge(
      'signalbox_scaling_live_workers',
      'Live workers that take jobs of the queue.',
      valuesOf(({ live }) => live),
    ),
  ]
}
