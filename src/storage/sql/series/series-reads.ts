import {
  hourMs,
  isOfKind,
  mergeRows,
  minuteMs,
  planRead,
  type SeriesRow,
  tenMinutesMs,
} from '../../../fleet/rules/index.ts'
import type { SeriesQuery } from '../../../fleet/series/series-store.ts'
import { many, type Operation, operation, run } from '../procedure.ts'
import { statement } from '../statement.ts'
import { columns, decodeMark, decodeNow, decodeRow, selectMark, selectNow } from './series-row.ts'

/** Reads of series: rows of processes and of closed steps in one statement, so that a reader sees each count once. */
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
    // The mark first: rows of smaller steps stay for long after it has moved.
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
