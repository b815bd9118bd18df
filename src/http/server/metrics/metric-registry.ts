import { collectDefaultMetrics, type Histogram, Registry } from 'prom-client'

/**
 * Extends prom-client: metrics that are read at a scrape, a view of one namespace, and a limit on series whose names
 * users choose.
 */

/** A metric that is read at a scrape. */
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
  /** A name other than the family's: `…_bucket`, `…_sum`, `…_count`. */
  readonly metricName?: string
}

export function gauge(name: string, help: string, values: readonly Value[]): Family {
  return { name, help, type: 'gauge', values }
}

export function counter(name: string, help: string, values: readonly Value[]): Family {
  return { name, help, type: 'counter', values }
}

/** The values of a histogram of the family `name`: how many measurements are within each bound, in milliseconds. */
export function bucketsOf(
  name: string,
  labels: Labels,
  boundsMs: readonly number[],
  {
    within,
    count,
    sumMs,
  }: { readonly within: readonly number[]; readonly count: number; readonly sumMs: number },
): readonly Value[] {
  const bucket = (le: number | string, value: number): Value => ({
    ...{ labels: { ...labels, le }, value },
    metricName: `${name}_bucket`,
  })
  return [
    ...within.map((value, at) => bucket(boundsMs[at]! / 1_000, value)),
    bucket('+Inf', count),
    { labels, value: sumMs / 1_000, metricName: `${name}_sum` },
    { labels, value: count, metricName: `${name}_count` },
  ]
}

/** The content type of a scrape. */
export const metricsType: string = Registry.PROMETHEUS_CONTENT_TYPE

/** Adds a family to a registry. A registry reads a metric by `get`. */
export function registerFamily(registry: Registry, family: Family): void {
  const metric = { ...family, get: async () => family }
  registry.registerMetric(metric as unknown as Histogram)
}

/** Copies a registry without the values of other namespaces. */
export async function viewOf(registry: Registry, namespace: string): Promise<Registry> {
  const view = new Registry()
  for (const family of (await registry.getMetricsAsJSON()) as unknown as Family[]) {
    const values = family.values.filter(({ labels }) => (labels.namespace ?? namespace) === namespace)
    registerFamily(view, { ...family, values })
  }
  return view
}

let processRegistry: Registry | undefined

/**
 * Measures the process from the first scrape on: processor, memory, file descriptors, garbage collection, lag of the
 * event loop. prom-client measures the lag with a timer of 10 ms, which a server without scrapes does not need. All
 * servers of a process share one registry, because prom-client never stops measuring.
 */
export function watchProcess(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry()
    collectDefaultMetrics({ register: processRegistry })
  }
  return processRegistry
}

/** Bounds in seconds for short waits. Long polls wait up to 60 s. */
export const soonBounds: number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]

/** Bounds in seconds for work, which may take an hour. */
export const workBounds: number[] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600]

interface CappedSeriesOptions<Cells, Name extends string> {
  readonly labelNames: readonly Name[]
  readonly limit: number
  /** Creates the counters of these labels. */
  readonly create: (labels: Readonly<Record<Name, string>>) => Cells
  /** Removes the series of these labels from their metrics. */
  readonly remove: (labels: Readonly<Record<Name, string>>) => void
}

/** A full set drops labels that were unused for this time. */
export const idleMs = 3_600_000
/** How often a full set searches for idle labels. */
const sweepMs = 60_000

/**
 * Series by names that users choose: at most `limit`, and one for all `other` names. A full set drops series that were
 * unused for an hour.
 */
export class CappedSeries<Cells, Name extends string = string> {
  readonly #options: CappedSeriesOptions<Cells, Name>
  readonly #series = new Map<
    string,
    { readonly labels: Record<Name, string>; readonly cells: Cells; usedAt: number }
  >()
  #other: Cells | undefined
  #sweptAt = Number.NEGATIVE_INFINITY

  constructor(options: CappedSeriesOptions<Cells, Name>) {
    this.#options = options
  }

  /** Returns the cells of these names, and creates them on first use. */
  find(names: readonly string[], now: number): Cells {
    const { limit, create } = this.#options
    // No name contains a control character.
    const key = names.join('\n')
    const known = this.#series.get(key)
    if (known !== undefined) {
      known.usedAt = now
      return known.cells
    }
    if (this.#series.size >= limit) this.#sweep(now)
    if (this.#series.size >= limit) {
      this.#other ??= create(this.#labelsOf(() => 'other'))
      return this.#other
    }
    const labels = this.#labelsOf((index) => names[index]!)
    const cells = create(labels)
    this.#series.set(key, { labels, cells, usedAt: now })
    return cells
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < sweepMs) return
    this.#sweptAt = now
    for (const [key, { labels, usedAt }] of this.#series) {
      if (now - usedAt <= idleMs) continue
      this.#series.delete(key)
      this.#options.remove(labels)
    }
  }

  #labelsOf(name: (index: number) => string): Record<Name, string> {
    const entries = this.#options.labelNames.map((label, index) => [label, name(index)])
    return Object.fromEntries(entries) as Record<Name, string>
  }
}
