import { SeriesCell, type SeriesValues } from './series-cell.ts'

/**
 * How rows of series are put together: rows of several processes become the row of their minute, rows of minutes those
 * of ten, and these those of an hour. The bounds are here as well, so that all engines agree.
 *
 *     processes ──minute is closed──▶ 1 min ──▶ 10 min ──▶ 1 h        and, at the first step, the totals
 */
export interface SeriesRow extends SeriesValues {
  /** When its step began, by the store's clock. */
  readonly bucketAt: number
  /** A row of a whole queue has the kind ''. The row of all that is beyond the bound has neither: both are ''. */
  readonly queue: string
  readonly kind: string
}

/** The steps that are kept, in milliseconds. Each is a multiple of the one before. */
export const minuteMs = 60_000
export const tenMinutesMs = 600_000
export const hourMs = 3_600_000

export const seriesBounds: {
  /** How long after its end a process may still write what it counted in a minute. */
  readonly openMs: number
  /** How long after its end a minute is put together: later, so that no write that was let through is under way. */
  readonly closedMs: number
  /** Queues and kinds that are told apart in a namespace, in a step and in the totals. */
  readonly keys: number
} = { openMs: 60_000, closedMs: 90_000, keys: 1_000 }

/** How long the steps are kept. */
export interface SeriesKeep {
  readonly minutesMs: number
  readonly hoursMs: number
}

/** How long steps of ten minutes are kept: a week of them is drawn often. */
export function keepTensMs({ minutesMs, hoursMs }: SeriesKeep): number {
  return Math.min(hoursMs, Math.max(minutesMs, 14 * 86_400_000))
}

/** Rows of whole queues say how many jobs were seen in them, which does not add up over time. */
export function isOfKind({ kind, queue }: Pick<SeriesRow, 'queue' | 'kind'>): boolean {
  return kind !== '' || queue === ''
}

/** The begin of the step in which an instant lies. */
export function stepAt(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs
}

/** Not in a name, which contains no control characters. */
function keyOf({ queue, kind }: Pick<SeriesRow, 'queue' | 'kind'>): string {
  return `${queue}\n${kind}`
}

/**
 * Adds rows up by queue, kind and step. A step has at most `seriesBounds.keys` rows: those with the fewest jobs are added
 * to the row of the others. `known` has rows that keep their place, as totals do.
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
  const places = new Map(Array.from(steps, ([at, cells]) => [at, cells.size]))
  for (const row of rows) cellOf(cellsAt(stepAt(row.bucketAt, stepMs)), row).cell.addValues(row)
  return Array.from(steps).flatMap(([bucketAt, cells]) =>
    fold([...cells.values()], places.get(bucketAt) ?? 0).map(({ queue, kind, cell }) => ({
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

/** The first `placed` cells keep their place. */
function fold(cells: readonly NamedCell[], placed: number): readonly NamedCell[] {
  if (cells.length <= seriesBounds.keys) return cells
  const isOther = ({ queue, kind }: NamedCell) => queue === '' && kind === ''
  const size = ({ cell }: NamedCell) => cell.added + cell.started
  const newest = cells.slice(placed).sort((a, b) => size(b) - size(a))
  const all = [...cells.slice(0, placed), ...newest].filter((cell) => !isOther(cell))
  const other = cells.find(isOther) ?? { queue: '', kind: '', cell: new SeriesCell() }
  for (const { cell } of all.slice(seriesBounds.keys - 1)) other.cell.add(cell)
  return [...all.slice(0, seriesBounds.keys - 1), other]
}
