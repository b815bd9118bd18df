import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { taskQueue } from '../../core/job-words.ts'
import { duration, onlyKeys, text, whole } from '../../core/options.ts'
import {
  type Histogram,
  hourMs,
  isOfKind,
  minuteMs,
  SeriesCell,
  type SeriesRow,
  stepAt,
  tenMinutesMs,
  type WaitCause,
} from '../rules/index.ts'
import type { SeriesStore } from './series-store.ts'

/** Which counts and times of jobs to read. */
export interface SeriesRequest {
  /** An instant, epoch milliseconds. @default an hour before `to` */
  readonly from?: number | undefined
  /** @default now, by the store's clock */
  readonly to?: number | undefined
  /** A number of whole minutes. @default the shortest step with at most 200 points */
  readonly step?: Duration | undefined
  /** Only this queue. @default all */
  readonly queue?: string | undefined
  /** Only this kind. @default all */
  readonly kind?: string | undefined
  /** One item for each queue or kind. @default one item for all */
  readonly by?: 'queue' | 'kind' | undefined
}

/** Counts and times of jobs over time, of all processes that use the store. */
export interface Series {
  /** The store's clock. The step of this instant is not complete. */
  readonly now: number
  /** The start of the first step, and the end of the last. */
  readonly from: number
  readonly to: number
  readonly stepMs: number
  /** The items with the most jobs first, up to 100. */
  readonly items: readonly SeriesItem[]
  /** Whether some queues or kinds are missing: added up as `other`, or beyond the first 100 items. */
  readonly isFolded: boolean
}

export interface SeriesItem {
  /** Null: all. */
  readonly queue: string | null
  readonly kind: string | null
  readonly total: SeriesNumbers
  /** Oldest first, without empty steps. */
  readonly points: readonly SeriesPoint[]
}

export interface SeriesPoint extends SeriesNumbers {
  /** When the step began. */
  readonly at: number
}

export interface SeriesNumbers {
  readonly added: number
  readonly started: number
  readonly completed: number
  /** Attempts that failed, whose jobs are tried again. */
  readonly failed: number
  /** Jobs that failed for good. */
  readonly dead: number
  readonly cancelled: number
  /** The time from a job's due time until its attempt began; null: no attempt began. */
  readonly wait: Times | null
  /** The sum of these waits, by cause; causes without waits are left out. */
  readonly waitMsBy: Partial<Record<'queue' | 'limit' | 'lock' | 'dependency' | 'noWorker', number>>
  /** How long attempts ran; null: no attempt ended. */
  readonly run: Times | null
  /**
   * The most jobs that a server saw ready and running in the step; null: no server counted, or the item is of a kind.
   */
  readonly ready: number | null
  readonly running: number | null
}

/** A distribution. Percentiles are right within a fifth. */
export interface Times {
  readonly count: number
  readonly sumMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
}

/** The most steps of an answer (`defaultPoints`: the most steps if the caller names no step), and the most items. */
export const seriesLimits: {
  readonly points: number
  readonly defaultPoints: number
  readonly items: number
} = {
  points: 3_000,
  defaultPoints: 200,
  items: 100,
}

/** Reads counts and times of jobs over time. Throws `invalid_argument`. */
export async function readSeries(
  store: Pick<SeriesStore, 'now' | 'read'>,
  request: SeriesRequest = {},
): Promise<Series> {
  onlyKeys('series', request, ['from', 'to', 'step', 'queue', 'kind', 'by'])
  const { by } = request
  if (by !== undefined && by !== 'queue' && by !== 'kind')
    throw new SignalboxError('invalid_argument', 'series.by must be "queue" or "kind".')
  const queue = request.queue === undefined ? undefined : text('series.queue', request.queue)
  const kind = request.kind === undefined ? undefined : text('series.kind', request.kind)
  const until = request.to === undefined ? (await store.now()) + 1 : whole('series.to', request.to)
  const since = request.from === undefined ? Math.max(0, until - hourMs) : whole('series.from', request.from)
  if (since >= until) throw new SignalboxError('invalid_argument', 'series.from must be before series.to.')
  const stepMs =
    request.step === undefined
      ? fittingStep(until - since)
      : duration('series.step', request.step, { min: minuteMs, max: 366 * 24 * hourMs })
  if (stepMs % minuteMs !== 0)
    throw new SignalboxError('invalid_argument', 'series.step must be a number of whole minutes.')
  const from = stepAt(since, stepMs)
  const to = stepAt(until - 1, stepMs) + stepMs
  if ((to - from) / stepMs > seriesLimits.points)
    throw new SignalboxError(
      'invalid_argument',
      `The series has more than ${seriesLimits.points} steps. Ask for a longer step or a shorter time.`,
    )
  const base = [hourMs, tenMinutesMs, minuteMs].find((kept) => stepMs % kept === 0)!
  const { now, rows: found } = await store.read({ from, to, stepMs: base, queue, kind })
  // Tasks are no jobs: the answer has them only if the caller names their queue.
  const rows = queue === taskQueue ? found : found.filter((row) => row.queue !== taskQueue)
  const items = itemsOf(rows, stepMs, by)
  const isFolded = rows.some(isOtherRow) || items.length > seriesLimits.items
  return { now, from, to, stepMs, items: items.slice(0, seriesLimits.items).map(showItem), isFolded }
}

const niceSteps = [minuteMs, tenMinutesMs, hourMs, 3 * hourMs, 6 * hourMs, 12 * hourMs, 24 * hourMs]

/** The shortest step with not too many points. */
export function fittingStep(spanMs: number): number {
  return niceSteps.find((stepMs) => spanMs / stepMs <= seriesLimits.defaultPoints) ?? niceSteps.at(-1)!
}

interface Item {
  readonly queue: string | null
  readonly kind: string | null
  /** How many jobs were added, and attempts begun. */
  size: number
  readonly points: Map<number, Point>
}

/** The rows of one step. */
interface Point {
  readonly rows: SeriesRow[]
  ready: number | null
  running: number | null
}

/** Rows by queue or kind, those with the most jobs first. */
function itemsOf(
  rows: readonly SeriesRow[],
  stepMs: number,
  by: 'queue' | 'kind' | undefined,
): readonly Item[] {
  const items = new Map<string, Item>()
  // Without `by`, the answer always has one item, even if nothing happened.
  if (by === undefined) items.set('', { queue: null, kind: null, size: 0, points: new Map() })
  const highestRows = new Map<string, SeriesRow>()
  for (const row of rows) {
    if (!isOfKind(row)) {
      // Several servers count the same queue: of a step and queue the highest number counts. Queues add up.
      if (by !== 'kind') keepHighest(highestRows, row, stepMs)
      continue
    }
    const item = itemOf(items, row, by)
    item.size += row.added + row.started
    pointOf(item, stepAt(row.bucketAt, stepMs)).rows.push(row)
  }
  for (const row of highestRows.values()) {
    const point = pointOf(itemOf(items, row, by), row.bucketAt)
    point.ready = (point.ready ?? 0) + (row.ready ?? 0)
    point.running = (point.running ?? 0) + (row.running ?? 0)
  }
  return [...items.values()].sort((a, b) => b.size - a.size)
}

function keepHighest(highestRows: Map<string, SeriesRow>, row: SeriesRow, stepMs: number): void {
  const bucketAt = stepAt(row.bucketAt, stepMs)
  const key = `${bucketAt}\n${row.queue}`
  const known = highestRows.get(key)
  const cell = new SeriesCell()
  cell.seen(row.ready, row.running)
  if (known !== undefined) cell.seen(known.ready, known.running)
  highestRows.set(key, { ...row, bucketAt, ready: cell.ready, running: cell.running })
}

function itemOf(items: Map<string, Item>, row: SeriesRow, by: 'queue' | 'kind' | undefined): Item {
  const isOther = isOtherRow(row)
  const name = by === undefined ? '' : isOther ? '' : row[by]
  const known = items.get(name)
  if (known !== undefined) return known
  const shownAs = isOther ? 'other' : name
  const names = { queue: by === 'queue' ? shownAs : null, kind: by === 'kind' ? shownAs : null }
  const item = { ...names, size: 0, points: new Map<number, Point>() }
  items.set(name, item)
  return item
}

/** Whether a row adds up the kinds beyond the limit. */
function isOtherRow({ queue, kind }: Pick<SeriesRow, 'queue' | 'kind'>): boolean {
  return queue === '' && kind === ''
}

function pointOf({ points }: Item, at: number): Point {
  const known = points.get(at)
  if (known !== undefined) return known
  const point = { rows: [], ready: null, running: null }
  points.set(at, point)
  return point
}

/** Two days of fifty kinds have thousands of points, so one cell is reused for all of them. */
function showItem({ queue, kind, points }: Item): SeriesItem {
  const total = new SeriesCell()
  const cell = new SeriesCell()
  const inOrder = [...points].sort(([a], [b]) => a - b)
  const shownPoints = inOrder.map(([at, { rows, ready, running }]) => {
    cell.clear()
    for (const row of rows) cell.addValues(row)
    total.add(cell)
    cell.ready = ready
    cell.running = running
    return { at, ...numbersOf(cell) }
  })
  return { queue, kind, total: numbersOf(total), points: shownPoints }
}

function numbersOf(cell: SeriesCell): SeriesNumbers {
  const { added, started, completed, failed, dead, cancelled, ready, running } = cell
  const waitMsBy: Partial<Record<WaitCause, number>> = {}
  for (const [cause, { isEmpty, sumMs }] of cell.waits) if (!isEmpty) waitMsBy[cause] = Math.round(sumMs)
  const [wait, run] = [timesOf(cell.wait), timesOf(cell.run)]
  return { added, started, completed, failed, dead, cancelled, wait, waitMsBy, run, ready, running }
}

const shares = [0.5, 0.9, 0.99]

function timesOf(times: Histogram): Times | null {
  const { count } = times
  if (count === 0) return null
  const [p50Ms, p90Ms, p99Ms] = times.percentiles(shares) as [number, number, number]
  return { count, sumMs: Math.round(times.sumMs), p50Ms, p90Ms, p99Ms }
}
