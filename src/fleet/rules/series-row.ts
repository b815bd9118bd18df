import { SeriesCell, type SeriesValues } from './series-cell.ts'

/**
 * How rows of series are merged: rows of several processes become the row of their minute. Minutes become steps of ten
 * minutes, and these become hours. The limits are defined here too, so that all engines agree.
 *
 *     processes ──minute is closed──▶ 1 min ──▶ 10 min ──▶ 1 h        and, at the first step, the totals
 */
export interface SeriesRow extends SeriesValues {
  /** The start of its step, by the store's clock. */
  readonly bucketAt: number
  /** A row of a whole queue has the kind ''. In the row that adds up everything beyond the limit, both are ''. */
  readonly queue: string
  readonly kind: string
}

/** The stored steps, in milliseconds. Each is a multiple of the previous one. */
export const minuteMs = 60_000
export const tenMinutesMs = 600_000
export const hourMs = 3_600_000

export const seriesBounds: {
  /** How long after the end of a minute a process may still write its counts of that minute. */
  readonly openMs: number
  /** How long after its end a minute is merged. Longer than `openMs`, so that no accepted write is still running. */
  readonly closedMs: number
  /** The most queues and kinds with their own rows in a namespace, in a step and in the totals. */
  readonly keys: number
} = { openMs: 60_000, closedMs: 90_000, keys: 1_000 }

/** The retention of the steps. */
export interface SeriesKeep {
  readonly minutesMs: number
  readonly hoursMs: number
}

/** The retention of steps of ten minutes: at least two weeks, because charts often show a week of them. */
export function keepTensMs({ minutesMs, hoursMs }: SeriesKeep): number {
  return Math.min(hoursMs, Math.max(minutesMs, 14 * 86_400_000))
}

/** Whether a row has counts. Rows of whole queues have numbers of present jobs, which do not add up over time. */
export function isOfKind({ kind, queue }: Pick<SeriesRow, 'queue' | 'kind'>): boolean {
  return kind !== '' || queue === ''
}

/** The start of the step of an instant. */
export function stepAt(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs
}

/** Joins the names with a line break, because names contain no control characters. */
function keyOf({ queue, kind }: Pick<SeriesRow, 'queue' | 'kind'>): string {
  return `${queue}\n${kind}`
}

/**
 * Adds rows up by queue, kind and step. A step has at most `seriesBounds.keys` rows: rows with the fewest jobs are
 * added to the row of the others. Rows in `known` always keep their own row, as totals do.
 */
export function mergeRows(
  rows: Iterable<SeriesRow>,
  stepMs: number,
  known: readonly SeriesRow[] = [],
): readonly SeriesRow[] {
  const steps = new Map<number, Map<string, NamedCell>>()
  const cellsAt = (at: number) => {
    const cells = steps.get(at)
    if (cells !== undefined) return cells
    const fresh = new Map<string, NamedCell>()
    steps.set(at, fresh)
    return fresh
  }
  for (const row of known) cellOf(cellsAt(row.bucketAt), row).cell.addValues(row)
  const knownCounts = new Map(Array.from(steps, ([at, cells]) => [at, cells.size]))
  for (const row of rows) cellOf(cellsAt(stepAt(row.bucketAt, stepMs)), row).cell.addValues(row)
  return Array.from(steps).flatMap(([bucketAt, cells]) =>
    fold([...cells.values()], knownCounts.get(bucketAt) ?? 0).map(({ queue, kind, cell }) => ({
      ...{ bucketAt, queue, kind },
      ...cell.toValues(),
    })),
  )
}

interface NamedCell {
  readonly queue: string
  readonly kind: string
  readonly cell: SeriesCell
}

function cellOf(
  cells: Map<string, NamedCell>,
  { queue, kind }: Pick<SeriesRow, 'queue' | 'kind'>,
): NamedCell {
  const key = keyOf({ queue, kind })
  const known = cells.get(key)
  if (known !== undefined) return known
  const fresh = { queue, kind, cell: new SeriesCell() }
  cells.set(key, fresh)
  return fresh
}

/** Adds the smallest cells beyond the limit to the cell of the others. The first `knownCount` cells come first. */
function fold(cells: readonly NamedCell[], knownCount: number): readonly NamedCell[] {
  if (cells.length <= seriesBounds.keys) return cells
  const isOther = ({ queue, kind }: NamedCell) => queue === '' && kind === ''
  const size = ({ cell }: NamedCell) => cell.added + cell.started
  const newest = cells.slice(knownCount).sort((a, b) => size(b) - size(a))
  const all = [...cells.slice(0, knownCount), ...newest].filter((cell) => !isOther(cell))
  const other = cells.find(isOther) ?? { queue: '', kind: '', cell: new SeriesCell() }
  for (const { cell } of all.slice(seriesBounds.keys - 1)) other.cell.add(cell)
  return [...all.slice(0, seriesBounds.keys - 1), other]
}
