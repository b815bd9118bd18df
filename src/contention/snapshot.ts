import type { Histogram } from './histogram.ts'
import type { KeyEntry, KeyWaits } from './key-waits.ts'
import type { Kind, Kinds } from './kinds.ts'
import type { Recorder, Slowest } from './recorder.ts'
import type { Cell, Matrix } from './wait-matrix.ts'

/** The sources of a snapshot. */
export interface Readable {
  readonly since: number
  /** By `performance.now()`. */
  readonly now: number
  readonly kinds: Kinds
  readonly recorder: Recorder
  readonly matrix: Matrix
  readonly slowest: Slowest
  readonly keys: KeyWaits
  readonly namespace: string | undefined
}

/** Takes a snapshot as plain data. Numbers are rounded to three decimal places. */
export function takeSnapshot(parts: Readable): ContentionSnapshot {
  const { kinds, matrix, namespace, now } = parts
  const cells = matrix.cells()
  const nameOf = (id: number) => kinds.get(id).name
  return {
    since: parts.since,
    at: epoch(now),
    holders: holdersOf(cells, nameOf),
    matrix: cells.map((cell) => viewCell(cell, nameOf)),
    kinds: [...kinds]
      .filter(({ wait, hold }) => wait !== undefined || hold !== undefined)
      .sort((one, other) => waitedMs(other) - waitedMs(one) || heldMs(other) - heldMs(one))
      .map(({ name, lane, wait, hold }) => ({
        kind: name,
        lane: lane?.name ?? null,
        wait: distribution(wait),
        hold: distribution(hold),
      })),
    lanes: Array.from(kinds.lanes, ({ name, size, waiting, peakWaiting, open }) => ({
      lane: name,
      size,
      waiting,
      peakWaiting,
      holding: open.size,
    })),
    slowest: parts.slowest.list(now).map(({ kind, what, waitMs, holdMs, leftAt }) => ({
      kind: nameOf(kind),
      what: namespace === undefined ? (what ?? null) : null,
      waitMs: roundMs(waitMs),
      holdMs: roundMs(holdMs),
      at: epoch(leftAt),
    })),
    keys: parts.keys.list(namespace).map(viewKey),
    overflow: {
      kinds: kinds.overflow,
      tickets: parts.recorder.overflow,
      cells: matrix.overflow,
      keys: parts.keys.overflow,
    },
  }
}

/** The waits and holds of one kind for Prometheus. The count of each bound includes all lower values. */
export interface KindSeries {
  readonly kind: string
  readonly wait: BoundCounts | undefined
  readonly hold: BoundCounts | undefined
}

export interface BoundCounts {
  readonly counts: readonly number[]
  readonly count: number
  readonly sumMs: number
}

export interface ContentionSeries {
  readonly kinds: readonly KindSeries[]
  readonly matrix: readonly MatrixCell[]
}

export function seriesOf(kinds: Kinds, matrix: Matrix, boundsMs: readonly number[]): ContentionSeries {
  const within = (histogram: Histogram | undefined): BoundCounts | undefined =>
    histogram && {
      counts: histogram.countsWithin(boundsMs),
      count: histogram.count,
      sumMs: histogram.sumMs,
    }
  return {
    kinds: [...kinds]
      .filter(({ wait, hold }) => wait !== undefined || hold !== undefined)
      .map(({ name, wait, hold }) => ({ kind: name, wait: within(wait), hold: within(hold) })),
    matrix: matrix.cells().map((cell) => viewCell(cell, (id) => kinds.get(id).name)),
  }
}

function viewCell({ waiter, holder, ms, count }: Cell, nameOf: (id: number) => string): MatrixCell {
  return { waiter: nameOf(waiter), holder: nameOf(holder), ms: roundMs(ms), count }
}

function holdersOf(cells: readonly Cell[], nameOf: (id: number) => string): readonly HolderTotal[] {
  const totals = new Map<number, number>()
  for (const { holder, ms } of cells) totals.set(holder, (totals.get(holder) ?? 0) + ms)
  return Array.from(totals, ([holder, ms]) => ({ holder: nameOf(holder), ms: roundMs(ms) })).sort(
    (one, other) => other.ms - one.ms,
  )
}

function viewKey(entry: KeyEntry): KeyWaitView {
  return {
    ...entry.key,
    holder: entry.holder,
    waiters: Array.from(entry.waiters.values(), ({ node, since }) => ({ node, since: epoch(since) })),
    waitCount: entry.waitCount,
    waitedMs: roundMs(entry.waitedMs),
    maxWaitMs: roundMs(entry.maxWaitMs),
    heldBy: Array.from(entry.byHolder, ([node, ms]) => ({
      node: node === '' ? null : node,
      ms: roundMs(ms),
    })).sort((one, other) => other.ms - one.ms),
  }
}

const nothing: Distribution = { count: 0, sumMs: 0, maxMs: 0, p50Ms: 0, p90Ms: 0, p99Ms: 0, p999Ms: 0 }

function distribution(histogram: Histogram | undefined): Distribution {
  if (histogram === undefined || histogram.count === 0) return nothing
  return {
    count: histogram.count,
    sumMs: roundMs(histogram.sumMs),
    maxMs: roundMs(histogram.maxMs),
    p50Ms: roundMs(histogram.percentile(0.5)),
    p90Ms: roundMs(histogram.percentile(0.9)),
    p99Ms: roundMs(histogram.percentile(0.99)),
    p999Ms: roundMs(histogram.percentile(0.999)),
  }
}

function waitedMs({ wait }: Kind): number {
  return wait?.sumMs ?? 0
}

function heldMs({ hold }: Kind): number {
  return hold?.sumMs ?? 0
}

function roundMs(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}

function epoch(at: number): number {
  return Math.round(performance.timeOrigin + at)
}

/**
 * Which kinds wait, how long and for which holders: all measurements of this process as plain data. Durations are
 * milliseconds, instants epoch milliseconds.
 */
export interface ContentionSnapshot {
  /** When the measurement began. */
  readonly since: number
  readonly at: number
  /** Sums of the matrix columns, the kind that delayed others most first. */
  readonly holders: readonly HolderTotal[]
  /** Which kind waited for which holder: the cells that are not empty, greatest first. */
  readonly matrix: readonly MatrixCell[]
  /** By kind of command, the longest total wait first. */
  readonly kinds: readonly KindTimes[]
  /** Wait queues and pools: how many wait now, and the most that ever waited. */
  readonly lanes: readonly LaneDepth[]
  /** The slowest turns of the last one to two hours. */
  readonly slowest: readonly SlowTurnView[]
  /** Locks with waits, the longest total wait first. */
  readonly keys: readonly KeyWaitView[]
  /** How many items did not fit. They count as `other` or are not counted. */
  readonly overflow: {
    readonly kinds: number
    readonly tickets: number
    readonly cells: number
    readonly keys: number
  }
}

export interface HolderTotal {
  readonly holder: string
  readonly ms: number
}

export interface MatrixCell {
  readonly waiter: string
  readonly holder: string
  /** The total time that the waiter waited for the holder. */
  readonly ms: number
  /** The number of waits in which the holder had a share. */
  readonly count: number
}

export interface KindTimes {
  readonly kind: string
  /** The lane of the kind; null without one. */
  readonly lane: string | null
  readonly wait: Distribution
  readonly hold: Distribution
}

/** A distribution of durations. Percentiles are within 2 %. */
export interface Distribution {
  readonly count: number
  readonly sumMs: number
  readonly maxMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
}

export interface LaneDepth {
  readonly lane: string
  /** How many commands may have a turn at once. */
  readonly size: number
  readonly waiting: number
  readonly peakWaiting: number
  readonly holding: number
}

export interface SlowTurnView {
  readonly kind: string
  /** Null also in the snapshot of one namespace. */
  readonly what: string | null
  readonly waitMs: number
  readonly holdMs: number
  /** When it ended. */
  readonly at: number
}

export interface KeyWaitView {
  readonly namespace: string
  readonly operation: string
  readonly resource: string
  /** The holder that this process knows. */
  readonly holder: string | null
  /** Up to 100 waiters. */
  readonly waiters: readonly { readonly node: string; readonly since: number }[]
  /** How many waits ended. */
  readonly waitCount: number
  /** The total time of all waits, including present ones. */
  readonly waitedMs: number
  /** The longest wait that ended. */
  readonly maxWaitMs: number
  /** The holders during the waits; null stands for unknown holders, and for holders beyond the limit. */
  readonly heldBy: readonly { readonly node: string | null; readonly ms: number }[]
}
