import {
  hasWork,
  isOfKind,
  keptSteps,
  type Merge,
  mergeRows,
  minuteMs,
  planSeries,
  type SeriesKeep,
  type SeriesPlan,
  tenMinutesMs,
} from '../../../fleet/rules/index.ts'
import { count, type Operation, operation, type Procedure, type Result, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'
import {
  batchColumns,
  columns,
  decodeMark,
  decodeNow,
  decodeRows,
  encodeRow,
  encodeTotal,
  rowColumns,
  selectMark,
  selectNow,
  setAllColumns,
  totalColumns,
} from './series-row.ts'

const selectFirstPart = statement(
  'series_first_part',
  { namespace: 'text' },
  (d) => `
SELECT bucket_at FROM @series_part ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace ORDER BY bucket_at LIMIT 1`,
)

const selectFirstStep = statement(
  'series_first_step',
  { namespace: 'text', stepMs: 'integer', from: 'integer' },
  (d) => `
SELECT bucket_at FROM @series_bucket ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace AND step_ms = :stepMs AND bucket_at >= :from ORDER BY bucket_at LIMIT 1`,
)

function* lookForWork(namespace: string, keep: SeriesKeep): Procedure<SeriesPlan> {
  const [clock, part, marked] = yield* run(
    selectNow({}),
    selectFirstPart({ namespace }),
    selectMark({ namespace }),
  )
  const mark = decodeMark(marked!)
  const [minute, ten, ...oldest] = yield* run(
    selectFirstStep({ namespace, stepMs: minuteMs, from: mark.tensUntil }),
    selectFirstStep({ namespace, stepMs: tenMinutesMs, from: mark.hoursUntil }),
    ...keptSteps.map((stepMs) => selectFirstStep({ namespace, stepMs, from: 0 })),
  )
  return planSeries(
    {
      ...{ now: decodeNow(clock!), mark, firstPart: firstAt(part!) },
      ...{ firstMinute: firstAt(minute!), firstTen: firstAt(ten!), oldest: oldest.map(firstAt) },
    },
    keep,
  )
}

function firstAt({ rows }: Pick<Result, 'rows'>): number | undefined {
  const [row] = rows as readonly { readonly bucket_at: number | string }[]
  return row && Number(row.bucket_at)
}

export const findWork: Operation<[namespace: string, keep: SeriesKeep], boolean> = operation({
  name: 'look for series to merge',
  isRead: true,
  *procedure(namespace: string, keep: SeriesKeep) {
    return hasWork(yield* lookForWork(namespace, keep))
  },
})

const createMark = statement(
  'series_mark_create',
  { namespace: 'text' },
  (d) => `
INSERT INTO @series_mark (namespace, tens_until, hours_until) VALUES (:namespace, 0, 0) ${d.keepExisting('namespace')}`,
)

const lockMark = statement(
  'series_mark_lock',
  { namespace: 'text' },
  (d) => `SELECT tens_until, hours_until FROM @series_mark WHERE namespace = :namespace ${d.forUpdate}`,
)

const moveMark = statement(
  'series_mark_move',
  { namespace: 'text', tensUntil: 'integer', hoursUntil: 'integer' },
  (d) => `
UPDATE @series_mark SET tens_until = ${d.greatest('tens_until', ':tensUntil')},
  hours_until = ${d.greatest('hours_until', ':hoursUntil')}
WHERE namespace = :namespace`,
)

const selectParts = statement(
  'series_parts',
  { namespace: 'text', bucketAt: 'integer' },
  () => `
SELECT bucket_at, ${columns} FROM @series_part WHERE namespace = :namespace AND bucket_at = :bucketAt`,
)

const deleteParts = statement(
  'series_parts_delete',
  { namespace: 'text', bucketAt: 'integer' },
  () => 'DELETE FROM @series_part WHERE namespace = :namespace AND bucket_at = :bucketAt',
)

const selectBuckets = statement(
  'series_buckets',
  { namespace: 'text', stepMs: 'integer', from: 'integer', to: 'integer' },
  () => `
SELECT bucket_at, ${columns} FROM @series_bucket
WHERE namespace = :namespace AND step_ms = :stepMs AND bucket_at >= :from AND bucket_at < :to`,
)

const selectOwnTotals = statement(
  'series_own_totals',
  { namespace: 'text' },
  () => `SELECT 0 AS bucket_at, ${columns} FROM @series_total WHERE namespace = :namespace`,
)

const upsertBuckets = statement(
  'series_buckets_write',
  { namespace: 'text', stepMs: 'integer', rows: rowColumns },
  (d) =>
    d.upsert({
      into: '@series_bucket',
      columns: `namespace, step_ms, bucket_at, series_key, ${columns}`,
      source: `SELECT :namespace, :stepMs, v.bucket_at, v.series_key, ${batchColumns} FROM :rows WHERE 1 = 1`,
      key: 'namespace, step_ms, bucket_at, series_key',
      set: setAllColumns,
    }),
)

const upsertTotals = statement('series_totals_write', { namespace: 'text', rows: totalColumns }, (d) =>
  d.upsert({
    into: '@series_total',
    columns: `namespace, series_key, ${columns}`,
    source: `SELECT :namespace, v.series_key, ${batchColumns} FROM :rows WHERE 1 = 1`,
    key: 'namespace, series_key',
    set: setAllColumns,
  }),
)

const deleteOld = statement(
  'series_prune',
  { namespace: 'text', stepMs: 'integer', before: 'integer', limit: 'integer' },
  (d) =>
    d.deleteFirst({
      from: '@series_bucket',
      key: 'namespace, step_ms, bucket_at, series_key',
      where: 'namespace = :namespace AND step_ms = :stepMs AND bucket_at < :before',
      orderBy: 'bucket_at',
      limit: ':limit',
    }),
)

const pruneBatch = 2_000

/**
 * Merges rows and deletes old ones, as fleet/rules/series-plan.ts plans. The procedure locks the namespace's mark, so
 * one process at a time does it.
 */
export const mergeSeries: Operation<[namespace: string, keep: SeriesKeep], boolean> = operation({
  name: 'merge series',
  connectionGroup: 'waiting',
  *procedure(namespace: string, keep: SeriesKeep) {
    yield* run(createMark({ namespace }), lockMark({ namespace }))
    // Only after the lock: another process may have done it before.
    const { minuteToMerge, merges, old } = yield* lookForWork(namespace, keep)
    const writes: Bound[] = []
    if (minuteToMerge !== undefined) writes.push(...(yield* mergeMinute(namespace, minuteToMerge)))
    for (const one of merges) writes.push(...(yield* mergeSteps(namespace, one)))
    yield* run(...writes)
    let pruned = 0
    for (const { stepMs, before } of old)
      pruned += yield* count(deleteOld({ namespace, stepMs, before, limit: pruneBatch }))
    return minuteToMerge !== undefined || merges.length > 0 || pruned >= pruneBatch
  },
})

/** Merges the rows of processes into the row of the minute, and adds them to the totals. */
function* mergeMinute(namespace: string, bucketAt: number): Procedure<readonly Bound[]> {
  const [parts, known, totals] = yield* run(
    selectParts({ namespace, bucketAt }),
    selectBuckets({ namespace, stepMs: minuteMs, from: bucketAt, to: bucketAt + minuteMs }),
    selectOwnTotals({ namespace }),
  )
  const rows = decodeRows(parts!)
  const minutes = mergeRows(rows, minuteMs, decodeRows(known!))
  const added = rows.filter(isOfKind).map((row) => ({ ...row, bucketAt: 0 }))
  const sums = mergeRows(added, minuteMs, decodeRows(totals!))
  return [
    upsertBuckets({ namespace, stepMs: minuteMs, rows: minutes.map(encodeRow) }),
    ...(sums.length === 0 ? [] : [upsertTotals({ namespace, rows: sums.map(encodeTotal) })]),
    deleteParts({ namespace, bucketAt }),
  ]
}

function* mergeSteps(
  namespace: string,
  { fromMs, stepMs, from, to, mark }: Merge,
): Procedure<readonly Bound[]> {
  const [found] = yield* run(selectBuckets({ namespace, stepMs: fromMs, from, to }))
  const merged = mergeRows(decodeRows(found!), stepMs)
  return [
    ...(merged.length === 0 ? [] : [upsertBuckets({ namespace, stepMs, rows: merged.map(encodeRow) })]),
    moveMark({ namespace, ...mark }),
  ]
}
