import { hash } from 'node:crypto'
import type { SeriesMark, SeriesRow } from '../../../fleet/rules/index.ts'
import { type Columns, columns as columnsOf } from '../columns.ts'
import type { Result } from '../procedure.ts'
import { type Statement, statement } from '../statement.ts'

/** The counts and durations of a row, as all tables of series store them. */
const values = columnsOf<Omit<SeriesRow, 'bucketAt'>>({
  ...{
    queue: 'text',
    kind: 'text',
    added: 'integer',
    started: 'integer',
    completed: 'integer',
    failed: 'integer',
  },
  ...{ dead: 'integer', cancelled: 'integer', ready: 'integer | null', running: 'integer | null' },
  ...{ runTimes: 'text', waitTimes: 'text' },
})
export const columns: string = values.names
/** The columns, read from the batch `v` of rows to write. */
export const batchColumns: string = values.of('v')
/** The assignments of an upsert that replaces the whole row. */
export const setAllColumns: Readonly<Record<string, string>> = Object.fromEntries(
  columns.split(', ').map((column) => [column, `new.${column}`]),
)
export const totalColumns: Columns<object>['types'] = { series_key: 'text', ...values.types }
export const rowColumns: Columns<object>['types'] = { bucket_at: 'integer', ...totalColumns }

export function decodeRows({ rows }: Pick<Result, 'rows'>): readonly SeriesRow[] {
  return rows.map(decodeRow)
}

export function decodeRow(row: unknown): SeriesRow {
  const { bucket_at: bucketAt } = row as { readonly bucket_at: number | string }
  return { bucketAt: Number(bucketAt), ...values.decode(row) }
}

export function encodeRow(row: SeriesRow): ReturnType<typeof encodeTotal> {
  return { bucket_at: row.bucketAt, ...encodeTotal(row) }
}

export function encodeTotal(row: Omit<SeriesRow, 'bucketAt'>): ReturnType<Columns<object>['encode']> {
  return { series_key: hashSeriesKey(row.queue, row.kind), ...values.encode(row) }
}

function hashSeriesKey(queue: string, kind: string): string {
  return hash('sha256', `${queue}\n${kind}`, 'base64url')
}

export const selectNow: Statement<object> = statement('series_now', {}, (d) => `SELECT ${d.now} AS now`)

export function decodeNow({ rows }: Pick<Result, 'rows'>): number {
  return Number((rows[0] as { readonly now: number | string }).now)
}

export const selectMark: Statement<{ readonly namespace: string }> = statement(
  'series_mark',
  { namespace: 'text' },
  () => 'SELECT tens_until, hours_until FROM @series_mark WHERE namespace = :namespace',
)

export function decodeMark({ rows }: Pick<Result, 'rows'>): SeriesMark {
  const [row] = rows as readonly { readonly [Name in 'tens_until' | 'hours_until']: number | string }[]
  return { tensUntil: Number(row?.tens_until ?? 0), hoursUntil: Number(row?.hours_until ?? 0) }
}
