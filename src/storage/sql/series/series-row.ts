import { hash } from 'node:crypto'
import type { SeriesMark, SeriesRow } from '../../../fleet/rules/index.ts'
import type { Result } from '../procedure.ts'
import { type Statement, statement, type ValuesOf } from '../statement.ts'

/** A row of counts and times, as all tables of series keep it. */
const counts = 'added, started, completed, failed, dead, cancelled, ready, running, run_times, wait_times'
export const columns: string = `queue, kind, ${counts}`
export const given: string = columns
  .split(', ')
  .map((column) => `v.${column}`)
  .join(', ')
export const replaced: Readonly<Record<string, string>> = Object.fromEntries(
  columns.split(', ').map((column) => [column, `new.${column}`]),
)

export const totalColumns = {
  series_key: 'text',
  queue: 'text',
  kind: 'text',
  added: 'integer',
  started: 'integer',
  completed: 'integer',
  failed: 'integer',
  dead: 'integer',
  cancelled: 'integer',
  ready: 'integer | null',
  running: 'integer | null',
  run_times: 'text',
  wait_times: 'text',
} as const
export const rowColumns: { readonly bucket_at: 'integer' } & typeof totalColumns = {
  bucket_at: 'integer',
  ...totalColumns,
}

/** Drivers give whole numbers as numbers or as text. */
export interface StoredRow {
  readonly bucket_at: number | string
  readonly queue: string
  readonly kind: string
  readonly added: number | string
  readonly started: number | string
  readonly completed: number | string
  readonly failed: number | string
  readonly dead: number | string
  readonly cancelled: number | string
  readonly ready: number | string | null
  readonly running: number | string | null
  readonly run_times: string
  readonly wait_times: string
}

export function decodeRows({ rows }: Pick<Result, 'rows'>): readonly SeriesRow[] {
  return (rows as readonly StoredRow[]).map(decodeRow)
}

export function decodeRow(row: StoredRow): SeriesRow {
  return {
    bucketAt: Number(row.bucket_at),
    queue: row.queue,
    kind: row.kind,
    added: Number(row.added),
    started: Number(row.started),
    completed: Number(row.completed),
    failed: Number(row.failed),
    dead: Number(row.dead),
    cancelled: Number(row.cancelled),
    ready: row.ready === null ? null : Number(row.ready),
    running: row.running === null ? null : Number(row.running),
    runTimes: row.run_times,
    waitTimes: row.wait_times,
  }
}

export function encodeRow({ bucketAt, ...values }: SeriesRow): ValuesOf<typeof rowColumns> {
  return { bucket_at: bucketAt, ...encodeTotal(values) }
}

export function encodeTotal({
  queue,
  kind,
  runTimes,
  waitTimes,
  ...values
}: Omit<SeriesRow, 'bucketAt'>): ValuesOf<typeof totalColumns> {
  const { added, started, completed, failed, dead, cancelled, ready, running } = values
  return {
    ...{ series_key: hashSeriesKey(queue, kind), queue, kind },
    ...{ added, started, completed, failed, dead, cancelled, ready, running },
    ...{ run_times: runTimes, wait_times: waitTimes },
  }
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
