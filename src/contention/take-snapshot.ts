import type { Histogram } from './histogram.ts'
import type { KeyEntry, KeyWaits } from './key-waits.ts'
import type { Kind, Kinds } from './kinds.ts'
import type { Slowest } from './slowest.ts'
import type { ContentionSnapshot, Distribution, HolderTotal, KeyWaitView, MatrixCell } from './snapshot.ts'
import type { Tickets } from './tickets.ts'
import type { Cell, Matrix } from './wait-matrix.ts'

/** What a snapshot is taken of. */
export interface Readable {
  readonly since: number
  /** By `performance.now()`. */
  readonly now: number
  readonly kinds: Kinds
  readonly tickets: Tickets
  readonly matrix: Matrix
  readonly slowest: Slowest
  readonly keys: KeyWaits
  readonly namespace: string | undefined
}

/** Everything as plain data, in which numbers have three places after the point. */
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
    lanes: Array.from(kinds.lanes, ({ name, size, waiting, peakWaiting, holding }) => ({
      lane: name,
      size,
      waiting,
      peakWaiting,
      holding,
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
      tickets: parts.tickets.overflow,
      cells: matrix.overflow,
      keys: parts.keys.overflow,
    },
  }
}

/** The waits and holds of one kind, as Prometheus counts: each bound with all below it. */
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

export function seriesOf(
  kinds: Kinds,
  matrix: Matrix,
  boundsMs: readonly number[],
): { readonly kinds: readonly KindSeries[]; readonly matrix: readonly MatrixCell[] } {
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
