import { collectDefaultMetrics, Registry } from 'prom-client'
import type { BoundCounts, Contention } from '../../../contention/index.ts'

/**
 * Numbers that are counted on the way of every request, and their way out. A cell is found once and then only added
 * to, without looking up labels; prom-client, which looks them up at every turn, watches the process and nothing else.
 */

/** A metric as it is at one moment. */
export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly values: readonly Value[]
}

export type Labels = Readonly<Record<string, string | number>>

export interface Value {
  readonly labels: Labels
  readonly value: number
  /** Where it is not the family's own: `…_bucket`, `…_sum`, `…_count`. */
  readonly metricName?: string
}

/** The content type of the text. */
export const metricsType: string = Registry.PROMETHEUS_CONTENT_TYPE

/**
 * The families in the text format of Prometheus. By hand: prom-client takes 10 µs for a line, and thousands of them would
 * stop the event loop for as long as somebody scrapes.
 */
export function printFamilies(families: readonly Family[]): string {
  let text = ''
  for (const { name, help, type, values } of families) {
    text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
    for (const { labels, value, metricName = name } of values)
      text += `${metricName}${printLabels(labels)} ${printNumber(value)}\n`
    text += '\n'
  }
  return text
}

function printLabels(labels: Labels): string {
  let text = ''
  for (const name in labels) {
    const value = labels[name]!
    const shown = typeof value === 'string' && needsEscape.test(value) ? escapeLabel(value) : value
    text += `${text === '' ? '{' : ','}${name}="${shown}"`
  }
  return text === '' ? '' : `${text}}`
}

const needsEscape = /[\\"\n]/

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function printNumber(value: number): string {
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : value < 0 ? '-Inf' : 'NaN'
}

let processRegistry: Registry | undefined

/**
 * Begins to watch the process: processor, memory, file descriptors, garbage collection, the event loop's lag. Once for
 * all servers in it, for it is one process, and what prom-client starts to watch it never lets go.
 */
export function watchProcess(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry()
    collectDefaultMetrics({ register: processRegistry })
  }
  return processRegistry
}

/** Bounds in seconds for what should be over soon. Long polls wait up to 60 s. */
export const soonBounds: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** The same for work, which takes as long as it takes. */
export const workBounds: readonly number[] = [
  0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
]

/** How often something lay within which bounds. */
export interface HistogramCell {
  observe(value: number): void
  /** The lines of this cell, with these labels. */
  values(name: string, labels: Labels): readonly Value[]
}

export function createHistogramCell(bounds: readonly number[]): HistogramCell {
  /** Not added up yet: each value is counted in one place; the last is for all above the highest bound. */
  const counts = new Float64Array(bounds.length + 1)
  let sum = 0

  return {
    observe(value) {
      let index = 0
      while (index < bounds.length && value > bounds[index]!) index++
      counts[index]!++
      sum += value
    },
    values(name, labels) {
      const values: Value[] = []
      let count = 0
      counts.forEach((own, index) => {
        count += own
        const le = index < bounds.length ? bounds[index]! : '+Inf'
        values.push({ labels: { ...labels, le }, value: count, metricName: `${name}_bucket` })
      })
      values.push({ labels, value: sum, metricName: `${name}_sum` })
      values.push({ labels, value: count, metricName: `${name}_count` })
      return values
    },
  }
}

/**
 * Waits, holds and who waited on whom, for Prometheus. Kinds and cells are bounded in number and carry no user's data, so
 * everybody who may scrape sees all of them.
 */
export function waitFamilies(contention: Pick<Contention, 'series'>): readonly Family[] {
  const { kinds, matrix } = contention.series(boundsMs)
  const family = (name: string, help: string, part: 'wait' | 'hold'): Family => ({
    name,
    help,
    type: 'histogram',
    values: kinds.flatMap(({ kind, [part]: counts }) => (counts ? valuesOf(name, { kind }, counts) : [])),
  })
  return [
    family('signalbox_wait_seconds', 'How long commands waited for their turn, by kind.', 'wait'),
    family('signalbox_hold_seconds', 'How long their turns took, by kind.', 'hold'),
    {
      name: 'signalbox_waited_on_seconds_total',
      help: 'Who waited on whom: of waits of more than a millisecond, the part in which the holder ran.',
      type: 'counter',
      values: matrix.map(({ waiter, holder, ms }) => ({ labels: { waiter, holder }, value: ms / 1_000 })),
    },
  ]
}

/** From a tenth of a millisecond: a turn that takes one is long. */
const boundsMs = [0.1, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]

function valuesOf(name: string, labels: Labels, { counts, count, sumMs }: BoundCounts): readonly Value[] {
  const bucket = `${name}_bucket`
  return [
    ...counts.map((value, index) => ({
      labels: { ...labels, le: boundsMs[index]! / 1_000 },
      value,
      metricName: bucket,
    })),
    { labels: { ...labels, le: '+Inf' }, value: count, metricName: bucket },
    { labels, value: sumMs / 1_000, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ]
}
