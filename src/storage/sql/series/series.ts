import {
  hourMs,
  isOfKind,
  mergeRows,
  minuteMs,
  planRead,
  type SeriesRow,
  seriesBounds,
  tenMinutesMs,
} from '../../../fleet/rules/index.ts'
import type { SeriesQuery, SeriesStore } from '../../../fleet/series/series-store.ts'
import type { Database } from '../database.ts'
import { last, many, type Operation, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { findWork, mergeSeries } from './merge-series.ts'
import {
  batchColumns,
  columns,
  decodeMark,
  decodeNow,
  decodeRow,
  encodeRow,
  rowColumns,
  selectMark,
  selectNow,
  setAllColumns,
} from './series-row.ts'

/**
 * Counts and durations of jobs. A process upserts its own rows (`series_part`) while their minute is open. Then any
 * process merges them in one transaction:
 *
 *     series_part, a row for each process ──closed──▶ series_bucket 1 min ──▶ 10 min ──▶ 1 h
 *                                             └─────▶ series_total, in the same transaction
 */
export function createSeriesStore(database: Database, namespace: string): SeriesStore {
  return {
    now: () => database.run(readClock, []),
    write: (source, rows) => database.run(writeParts, [namespace, source, rows]),
    read: (query) => database.run(readSteps, [namespace, query]),
    totals: () => database.run(readTotals, [namespace]),
    async merge(keep) {
      // Most processes find nothing to do, and should not wait for the lock to learn that.
      if (!(await database.run(findWork, [namespace, keep]))) return false
      return database.run(mergeSeries, [namespace, keep])
    },
  }
}

const readClock = operation({
  name: 'read the clock for series',
  isRead: true,
  *procedure() {
    const [clock] = yield* run(selectNow({}))
    return decodeNow(clock!)
  },
})

const upsertParts = statement(
  'series_write',
  { namespace: 'text', source: 'text', acceptedForMs: 'integer', rows: rowColumns },
  (d) => `${d.upsert({
    into: '@series_part',
    columns: `namespace, bucket_at, source, series_key, ${columns}`,
    source: `SELECT :namespace, v.bucket_at, :source, v.series_key, ${batchColumns} FROM :rows
WHERE v.bucket_at > ${d.now} - :acceptedForMs`,
    key: 'namespace, bucket_at, source, series_key',
    set: setAllColumns,
  })}
RETURNING bucket_at`,
)

const writeParts = operation({
  name: 'write series',
  *procedure(namespace: string, source: string, rows: readonly SeriesRow[]) {
    // From the start of a minute on, the store accepts its counts for this time.
    const acceptedForMs = minuteMs + seriesBounds.openMs
    const [written, clock] = yield* last(
      run(upsertParts({ namespace, source, acceptedForMs, rows: rows.map(encodeRow) }), selectNow({})),
    )
    const at = (written!.rows as readonly { readonly bucket_at: number | string }[]).map((row) =>
      Number(row.bucket_at),
    )
    return { now: decodeNow(clock!), written: [...new Set(at)] }
  },
})

/** Reads series: rows of processes and of closed steps in one statement, so that a reader sees each count once. */
const stepsBetween = (nr: 1 | 2 | 3, more: string) => `
SELECT bucket_at, ${columns} FROM @series_bucket
WHERE namespace = :namespace AND step_ms = :step${nr} AND bucket_at >= :from${nr} AND bucket_at < :to${nr} ${more}`
const partsBetween = (more: string) => `
SELECT bucket_at, ${columns} FROM @series_part
WHERE namespace = :namespace AND bucket_at >= :from AND bucket_at < :to ${more}`

const selectSteps = statement(
  'series_read',
  {
    ...{ namespace: 'text', from: 'integer', to: 'integer', 'queue?': 'text', 'kind?': 'text' },
    ...{ step1: 'integer', from1: 'integer', to1: 'integer' },
    ...{ step2: 'integer', from2: 'integer', to2: 'integer' },
    ...{ step3: 'integer', from3: 'integer', to3: 'integer' },
  },
  () => {
    const more = '{AND queue = :queue} {AND kind = :kind}'
    return [...([1, 2, 3] as const).map((nr) => stepsBetween(nr, more)), partsBetween(more)].join(
      ' UNION ALL ',
    )
  },
)

export const readSteps: Operation<
  [namespace: string, query: SeriesQuery],
  { readonly now: number; readonly rows: readonly SeriesRow[] }
> = operation({
  name: 'read series',
  isRead: true,
  *procedure(namespace: string, query: SeriesQuery) {
    const { from, to, queue, kind } = query
    // Reads the mark first: rows of smaller steps stay for long after the mark has moved.
    const [clock, mark] = yield* run(selectNow({}), selectMark({ namespace }))
    const { hours, tens, minutes } = planRead(query, decodeMark(mark!))
    const rows = yield* many(
      selectSteps({
        ...{ namespace, from, to, queue, kind },
        ...{ step1: hourMs, from1: hours.from, to1: hours.to },
        ...{ step2: tenMinutesMs, from2: tens.from, to2: tens.to },
        ...{ step3: minuteMs, from3: minutes.from, to3: minutes.to },
      }),
    )
    return { now: decodeNow(clock!), rows: rows.map(decodeRow) }
  },
})

const selectTotals = statement(
  'series_totals',
  { namespace: 'text' },
  () => `
SELECT 0 AS bucket_at, ${columns} FROM @series_total WHERE namespace = :namespace
UNION ALL SELECT 0 AS bucket_at, ${columns} FROM @series_part WHERE namespace = :namespace`,
)

export const readTotals: Operation<[namespace: string], readonly SeriesRow[]> = operation({
  name: 'read totals of series',
  isRead: true,
  *procedure(namespace: string) {
    const rows = yield* many(selectTotals({ namespace }))
    return mergeRows(rows.map(decodeRow).filter(isOfKind), minuteMs)
  },
})
