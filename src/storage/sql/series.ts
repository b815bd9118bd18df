import { hash } from 'node:crypto'
import {
  hourMs,
  isOfKind,
  keepTensMs,
  mergeRows,
  minuteMs,
  type SeriesKeep,
  type SeriesRow,
  seriesBounds,
  stepAt,
  tenMinutesMs,
} from '../../fleet/rules/index.ts'
import type { SeriesQuery, SeriesStore } from '../../fleet/series/series-store.ts'
import type { Database } from './database.ts'
import { count, last, many, one, operation, type Procedure, run } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/**
 * Counts and times of jobs. A process upserts rows of its own (`series_part`) while their minute is open. `roll` locks the
 * mark of the namespace, so that one process at a time puts rows together:
 *
 *     series_part, a row for each process ──closed──▶ series_bucket 1 min ──▶ 10 min ──▶ 1 h
 *                                             └─────▶ series_total, in the same transaction
 *
 * A reader takes rows of processes and of minutes in one statement, so it sees each count once.
 */
export function createSeriesStore(database: Database, namespace: string): SeriesStore {
  return {
    now: () => database.run(readClock, []),
    write: (source, rows) => database.run(writeParts, [namespace, source, rows]),
    read: (query) => database.run(readSteps, [namespace, query]),
    totals: () => database.run(readTotals, [namespace]),
    async roll(keep) {
      // Most processes find nothing to do, and none of them should wait for the lock to learn that.
      if (!(await database.run(findDue, [namespace, keep]))) return false
      return database.run(rollSteps, [namespace, keep])
    },
  }
}

const counts = 'added, started, completed, failed, dead, cancelled, ready, running, run_times, wait_times'
const columns = `queue, kind, ${counts}`
const given = columns
  .split(', ')
  .map((column) => `v.${column}`)
  .join(', ')
const replaced = Object.fromEntries(columns.split(', ').map((column) => [column, `new.${column}`]))

const totalColumns = {
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
const rowColumns = { bucket_at: 'integer', ...totalColumns } as const

const selectNow = statement('series_now', {}, (d) => `SELECT ${d.now} AS now`)

const readClock = operation({
  name: 'read the clock for series',
  isRead: true,
  *procedure() {
    return Number((yield* one<{ now: number | string }>(selectNow({})))!.now)
  },
})

const upsertParts = statement(
  'series_write',
  { namespace: 'text', source: 'text', latestMs: 'integer', rows: rowColumns },
  (d) => `${d.upsert({
    into: '@series_part',
    columns: `namespace, bucket_at, source, series_key, ${columns}`,
    source: `SELECT :namespace, v.bucket_at, :source, v.series_key, ${given} FROM :rows
WHERE v.bucket_at > ${d.now} - :latestMs`,
    key: 'namespace, bucket_at, source, series_key',
    set: replaced,
  })}
RETURNING bucket_at`,
)

const writeParts = operation({
  name: 'write series',
  *procedure(namespace: string, source: string, rows: readonly SeriesRow[]) {
    const latestMs = minuteMs + seriesBounds.openMs
    const [written, clock] = yield* last(
      run(upsertParts({ namespace, source, latestMs, rows: rows.map(encodeRow) }), selectNow({})),
    )
    const at = (written!.rows as readonly { bucket_at: number | string }[]).map((row) =>
      Number(row.bucket_at),
    )
    return { now: Number((clock!.rows[0] as { now: number | string }).now), written: [...new Set(at)] }
  },
})

const selectMark = statement(
  'series_mark',
  { namespace: 'text' },
  () => 'SELECT tens_until, hours_until FROM @series_mark WHERE namespace = :namespace',
)

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

const readSteps = operation({
  name: 'read series',
  isRead: true,
  *procedure(namespace: string, { from, to, stepMs, queue, kind }: SeriesQuery) {
    // The mark first: rows of smaller steps stay for long after it has moved.
    const [clock, marked] = yield* run(selectNow({}), selectMark({ namespace }))
    const { hoursUntil, tensUntil } = decodeMark(marked!.rows[0] as MarkRow | undefined)
    const hours = stepMs >= hourMs ? clamp(hoursUntil, from, to) : from
    const tens = stepMs >= tenMinutesMs ? clamp(tensUntil, hours, to) : from
    const rows = yield* many<StoredRow>(
      selectSteps({
        ...{ namespace, from, to, queue, kind },
        ...{ step1: hourMs, from1: from, to1: hours },
        ...{ step2: tenMinutesMs, from2: hours, to2: tens },
        ...{ step3: minuteMs, from3: tens, to3: to },
      }),
    )
    return { now: Number((clock!.rows[0] as { now: number | string }).now), rows: rows.map(decodeRow) }
  },
})

function clamp(at: number, from: number, to: number): number {
  return Math.min(Math.max(at, from), Math.max(from, to))
}

const selectTotals = statement(
  'series_totals',
  { namespace: 'text' },
  () => `
SELECT 0 AS bucket_at, ${columns} FROM @series_total WHERE namespace = :namespace
UNION ALL SELECT 0 AS bucket_at, ${columns} FROM @series_part WHERE namespace = :namespace`,
)

const readTotals = operation({
  name: 'read totals of series',
  isRead: true,
  *procedure(namespace: string) {
    const rows = yield* many<StoredRow>(selectTotals({ namespace }))
    return mergeRows(rows.map(decodeRow).filter(isOfKind), minuteMs)
  },
})

const selectFirstPart = statement(
  'series_first_part',
  { namespace: 'text' },
  (d) => `
SELECT bucket_at, ${d.now} AS now FROM @series_part ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace ORDER BY bucket_at LIMIT 1`,
)

const selectFirstStep = statement(
  'series_first_step',
  { namespace: 'text', stepMs: 'integer', from: 'integer' },
  (d) => `
SELECT bucket_at FROM @series_bucket ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace AND step_ms = :stepMs AND bucket_at >= :from ORDER BY bucket_at LIMIT 1`,
)

interface At {
  readonly bucket_at: number | string
}

/** What a namespace has to do. */
interface Due {
  /** The minute whose rows of processes are put together next. */
  readonly part: number | undefined
  /** From where and up to where steps are put together. */
  readonly tens: Span | undefined
  readonly hours: Span | undefined
  /** Steps that are too old. */
  readonly old: readonly { readonly stepMs: number; readonly before: number }[]
}
interface Span {
  readonly from: number
  readonly to: number
}

/** How much of longer steps is put together in one transaction. */
const mostTensMs = hourMs
const mostHoursMs = 24 * hourMs

function* lookForDue(namespace: string, keep: SeriesKeep): Procedure<Due> {
  const [clock, part, marked] = yield* run(
    selectNow({}),
    selectFirstPart({ namespace }),
    selectMark({ namespace }),
  )
  const now = Number((clock!.rows[0] as { now: number | string }).now)
  const { tensUntil, hoursUntil } = decodeMark(marked!.rows[0] as MarkRow | undefined)
  const first = part!.rows[0] as At | undefined
  const firstPart = first === undefined ? Number.POSITIVE_INFINITY : Number(first.bucket_at)
  const kept = [
    { stepMs: minuteMs, before: now - keep.minutesMs },
    { stepMs: tenMinutesMs, before: now - keepTensMs(keep) },
    { stepMs: hourMs, before: now - keep.hoursMs },
  ]
  const [minute, ten, ...oldest] = yield* run(
    selectFirstStep({ namespace, stepMs: minuteMs, from: tensUntil }),
    selectFirstStep({ namespace, stepMs: tenMinutesMs, from: hoursUntil }),
    ...kept.map(({ stepMs }) => selectFirstStep({ namespace, stepMs, from: 0 })),
  )
  const firstAt = (result: { readonly rows: readonly unknown[] } | undefined) => {
    const found = result!.rows[0] as At | undefined
    return found === undefined ? undefined : Number(found.bucket_at)
  }
  const tensTo = stepAt(Math.min(firstPart, now - minuteMs - seriesBounds.closedMs), tenMinutesMs)
  const nextMinute = firstAt(minute)
  // Without a row beyond the mark, all steps of ten minutes up to `tensTo` are there already.
  const hoursTo = stepAt(nextMinute === undefined ? Math.max(tensUntil, tensTo) : tensUntil, hourMs)
  return {
    part: firstPart + minuteMs + seriesBounds.closedMs <= now ? firstPart : undefined,
    tens: spanFrom(nextMinute, tenMinutesMs, tensTo, mostTensMs),
    hours: spanFrom(firstAt(ten), hourMs, hoursTo, mostHoursMs),
    old: kept.filter(({ before }, nr) => (firstAt(oldest[nr]) ?? Number.POSITIVE_INFINITY) < before),
  }
}

function spanFrom(first: number | undefined, stepMs: number, to: number, mostMs: number): Span | undefined {
  if (first === undefined) return undefined
  const from = stepAt(first, stepMs)
  return from < to ? { from, to: Math.min(to, from + mostMs) } : undefined
}

const findDue = operation({
  name: 'look for series to put together',
  isRead: true,
  *procedure(namespace: string, keep: SeriesKeep) {
    const { part, tens, hours, old } = yield* lookForDue(namespace, keep)
    return part !== undefined || tens !== undefined || hours !== undefined || old.length > 0
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
      source: `SELECT :namespace, :stepMs, v.bucket_at, v.series_key, ${given} FROM :rows WHERE 1 = 1`,
      key: 'namespace, step_ms, bucket_at, series_key',
      set: replaced,
    }),
)

const upsertTotals = statement('series_totals_write', { namespace: 'text', rows: totalColumns }, (d) =>
  d.upsert({
    into: '@series_total',
    columns: `namespace, series_key, ${columns}`,
    source: `SELECT :namespace, v.series_key, ${given} FROM :rows WHERE 1 = 1`,
    key: 'namespace, series_key',
    set: replaced,
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

const rollSteps = operation({
  name: 'put series together',
  lane: 'waiting',
  *procedure(namespace: string, keep: SeriesKeep) {
    yield* run(createMark({ namespace }), lockMark({ namespace }))
    // Only now: before the lock, another process may have done it.
    const { part, tens, hours, old } = yield* lookForDue(namespace, keep)
    const writes: Bound[] = []
    if (part !== undefined) writes.push(...(yield* gather(namespace, part)))
    if (tens !== undefined) {
      writes.push(...(yield* rollUp(namespace, tens, minuteMs, tenMinutesMs)))
      writes.push(moveMark({ namespace, tensUntil: tens.to, hoursUntil: 0 }))
    }
    if (hours !== undefined) {
      writes.push(...(yield* rollUp(namespace, hours, tenMinutesMs, hourMs)))
      writes.push(moveMark({ namespace, tensUntil: 0, hoursUntil: hours.to }))
    }
    yield* run(...writes)
    let pruned = 0
    for (const { stepMs, before } of old)
      pruned += yield* count(deleteOld({ namespace, stepMs, before, limit: pruneBatch }))
    return part !== undefined || tens !== undefined || hours !== undefined || pruned >= pruneBatch
  },
})

/** The rows of processes become those of the minute, and are added to the totals. */
function* gather(namespace: string, bucketAt: number): Procedure<readonly Bound[]> {
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

function* rollUp(
  namespace: string,
  { from, to }: Span,
  fromMs: number,
  stepMs: number,
): Procedure<readonly Bound[]> {
  const rows = yield* many<StoredRow>(selectBuckets({ namespace, stepMs: fromMs, from, to }))
  const merged = mergeRows(rows.map(decodeRow), stepMs)
  return merged.length === 0 ? [] : [upsertBuckets({ namespace, stepMs, rows: merged.map(encodeRow) })]
}

/** Drivers give whole numbers as numbers or as text. */
interface StoredRow extends At {
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

function decodeRows({ rows }: { readonly rows: readonly unknown[] }): readonly SeriesRow[] {
  return (rows as readonly StoredRow[]).map(decodeRow)
}

function decodeRow(row: StoredRow): SeriesRow {
  return {
    ...{ bucketAt: Number(row.bucket_at), queue: row.queue, kind: row.kind },
    ...{ added: Number(row.added), started: Number(row.started), completed: Number(row.completed) },
    ...{ failed: Number(row.failed), dead: Number(row.dead), cancelled: Number(row.cancelled) },
    ready: row.ready === null ? null : Number(row.ready),
    running: row.running === null ? null : Number(row.running),
    ...{ runTimes: row.run_times, waitTimes: row.wait_times },
  }
}

function encodeRow({ bucketAt, ...values }: SeriesRow) {
  return { bucket_at: bucketAt, ...encodeTotal(values) }
}

function encodeTotal({ queue, kind, runTimes, waitTimes, ...values }: Omit<SeriesRow, 'bucketAt'>) {
  const { added, started, completed, failed, dead, cancelled, ready, running } = values
  return {
    ...{ series_key: hashSeriesKey(queue, kind), queue, kind },
    ...{ added, started, completed, failed, dead, cancelled, ready, running },
    ...{ run_times: runTimes, wait_times: waitTimes },
  }
}

export function hashSeriesKey(queue: string, kind: string): string {
  return hash('sha256', `${queue}\n${kind}`, 'base64url')
}

interface MarkRow {
  readonly tens_until: number | string
  readonly hours_until: number | string
}

function decodeMark(row: MarkRow | undefined): { readonly tensUntil: number; readonly hoursUntil: number } {
  return { tensUntil: Number(row?.tens_until ?? 0), hoursUntil: Number(row?.hours_until ?? 0) }
}
