import type { SeriesTotal } from '../../../fleet/index.ts'
import { Histogram, SeriesCell, type WaitCause } from '../../../fleet/rules/index.ts'
import type { Family, Value } from './metric-registry.ts'
import { capped } from './module-gauges.ts'

/**
 * Counts and times of jobs for Prometheus, read at a scrape. `source="fleet"` has the totals of all processes on the store,
 * which every server shows alike; `source="process"` has what passed through this server. Up to 100 namespaces and 100
 * queues have times of their own, and the rest shares `other`. The store bounds the number of kinds.
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
  const counter = (name: string, help: string, values: readonly Value[]): Family => ({
    ...{ name, help, values },
    type: 'counter',
  })
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
      // All outcomes are shown from the start, so that the first of a kind is an increase.
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

/** The row of all that is beyond the bound of the store has no names. */
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

/** By name, so that the same queues keep their own times. */
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

/** Waits in the queue are always shown, the other causes when there were any. */
function waitsOf({ waits }: SeriesCell): readonly (readonly [WaitCause, Histogram])[] {
  return waits.has('queue') ? [...waits] : [['queue', new Histogram()], ...waits]
}

/** From five milliseconds to some hours; each is a bound of the histograms that are kept. */
const shownMs = [
  5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
  10_000_000,
]

function valuesOf(name: string, labels: Labels, times: Histogram): readonly Value[] {
  const { count } = times
  const bucket = (le: number | string, value: number): Value => ({
    labels: { ...labels, le },
    value,
    metricName: `${name}_bucket`,
  })
  return [
    ...times.within(shownMs).map((value, at) => bucket(shownMs[at]! / 1_000, value)),
    bucket('+Inf', count),
    { labels, value: times.sumMs / 1_000, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ]
}

/** Rows of the store as totals. */
export function totalsOf(
  rows: readonly (Parameters<SeriesCell['addValues']>[0] & Omit<SeriesTotal, 'cell'>)[],
): readonly SeriesTotal[] {
  return rows.map((row) => {
    const cell = new SeriesCell()
    cell.addValues(row)
    return { queue: row.queue, kind: row.kind, cell }
  })
}
