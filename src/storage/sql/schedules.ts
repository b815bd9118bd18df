import type { Fired, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import type { Database } from './database.ts'
import { addJobs, count, last, many, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * Schedules of one namespace. A schedule is a row with a version; `due_at` is when it runs next, and null while it is
 * paused. A run is one transaction: the row is moved on if it still has the version that was seen, which keeps it locked;
 * then the jobs are added. Which slots run, and when the next one is due, is decided in `src/jobs/schedules`.
 */
export function createScheduleStore(database: Database, namespace: string): ScheduleStore {
  return {
    put: (schedule, seen) => database.run(putSchedule, [namespace, schedule, seen]),
    remove: (name) => database.run(removeSchedule, [namespace, name]),
    find: (name) => database.run(findSchedule, [namespace, name]),
    list: (query) => database.run(listSchedules, [namespace, query]),
    due: (limit) => database.run(listDue, [namespace, limit]),
    nextDue: () => database.run(findNextDue, [namespace]),
    fire: (fired) => database.run(fireSchedule, [namespace, fired]),
  }
}

const columns = 'name, version, is_paused, next_at, last_slot_at, last_fired_at, created_at, doc'
const key = { namespace: 'text', name: 'text' } as const
const content = { doc: 'text', isPaused: 'boolean', nextAt: 'integer | null' } as const

// A new schedule begins at the clock, in microseconds: above all versions that its name had before.
const insert = statement(
  'schedule_make',
  { ...key, ...content },
  (d) => `
INSERT INTO @job_schedule (namespace, name, version, doc, is_paused, next_at, created_at)
VALUES (:namespace, :name, ${d.nowMicros}, :doc, :isPaused, :nextAt, ${d.now}) ${d.keepExisting('namespace, name')}`,
)

const update = statement(
  'schedule_change',
  { ...key, ...content, seen: 'integer' },
  () => `
UPDATE @job_schedule SET version = version + 1, doc = :doc, is_paused = :isPaused, next_at = :nextAt
WHERE namespace = :namespace AND name = :name AND version = :seen`,
)

const selectOne = statement(
  'schedule_find',
  key,
  () => `SELECT ${columns} FROM @job_schedule WHERE namespace = :namespace AND name = :name`,
)

const putSchedule = operation({
  name: 'write a schedule',
  lane: 'waiting',
  *procedure(namespace: string, { name, doc, isPaused, nextAt }: NewSchedule, seen: number) {
    const written = { namespace, name, doc, isPaused, nextAt }
    if (seen !== 0) return (yield* last(count(update({ ...written, seen })))) === 1 ? seen + 1 : null
    const [made, found] = yield* last(run(insert(written), selectOne({ namespace, name })))
    return made!.rowCount === 1 ? decodeRow(found!.rows[0] as ScheduleRow).version : null
  },
})

const remove = statement(
  'schedule_remove',
  key,
  () => 'DELETE FROM @job_schedule WHERE namespace = :namespace AND name = :name',
)

const removeSchedule = operation({
  name: 'remove a schedule',
  lane: 'waiting',
  *procedure(namespace: string, name: string) {
    return (yield* last(count(remove({ namespace, name })))) === 1
  },
})

const findSchedule = operation({
  name: 'find a schedule',
  isRead: true,
  *procedure(namespace: string, name: string) {
    const row = yield* one<ScheduleRow>(selectOne({ namespace, name }))
    return row && decodeRow(row)
  },
})

const selectPage = statement(
  'schedule_list',
  { namespace: 'text', 'after?': 'text', limit: 'integer' },
  () => `
SELECT ${columns} FROM @job_schedule WHERE namespace = :namespace {AND name > :after} ORDER BY name LIMIT :limit`,
)

const listSchedules = operation({
  name: 'list schedules',
  isRead: true,
  *procedure(namespace: string, { after, limit }: { readonly limit: number; readonly after?: string }) {
    const rows = yield* many<ScheduleRow>(selectPage({ namespace, after, limit }))
    return rows.map(decodeRow)
  },
})

const selectClock = statement('schedule_clock', {}, (d) => `SELECT ${d.now} AS now`)

const selectDue = statement(
  'schedule_due',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT ${columns} FROM @job_schedule ${d.byIndex('job_schedule_due')}
WHERE namespace = :namespace AND due_at <= ${d.now} ORDER BY due_at, name LIMIT :limit`,
)

const listDue = operation({
  name: 'list due schedules',
  isRead: true,
  *procedure(namespace: string, limit: number) {
    const [clock, found] = yield* run(selectClock({}), selectDue({ namespace, limit }))
    const schedules = (found!.rows as readonly ScheduleRow[]).map(decodeRow)
    // A schedule that fell due between the two statements moves the clock on: none of them is due in the future.
    const instants = schedules.map(({ nextAt }) => nextAt!)
    return { schedules, now: Math.max(Number((clock!.rows[0] as { now: number | string }).now), ...instants) }
  },
})

const selectNext = statement(
  'schedule_next',
  { namespace: 'text' },
  (d) => `
SELECT ${d.now} AS now, (SELECT due_at FROM @job_schedule WHERE namespace = :namespace AND due_at IS NOT NULL
  ORDER BY due_at LIMIT 1) AS next_at`,
)

const findNextDue = operation({
  name: 'find the next due schedule',
  isRead: true,
  *procedure(namespace: string) {
    const row = yield* one<{ now: number | string; next_at: number | string | null }>(
      selectNext({ namespace }),
    )
    return { nextAt: instant(row!.next_at), now: Number(row!.now) }
  },
})

const move = statement(
  'schedule_fire',
  { ...key, seen: 'integer', force: 'boolean', nextAt: 'integer | null', slotAt: 'integer | null' },
  (d) => `
UPDATE @job_schedule
SET version = version + 1, next_at = :nextAt, last_slot_at = coalesce(:slotAt, last_slot_at), last_fired_at = ${d.now}
WHERE namespace = :namespace AND name = :name AND version = :seen AND (:force OR NOT is_paused)`,
)

const fireSchedule = operation({
  name: 'run a schedule',
  lane: 'waiting',
  *procedure(namespace: string, { jobs, ...moved }: Fired) {
    const moving = count(move({ namespace, ...moved }))
    const isMoved = (yield* jobs.length === 0 ? last(moving) : moving) === 1
    if (!isMoved) return null
    const added = jobs.length === 0 ? [] : yield* last(addJobs(namespace, jobs))
    return { version: moved.seen + 1, added }
  },
})

const selectNamespaces = statement(
  'schedule_namespaces',
  { limit: 'integer' },
  () => `
SELECT namespace FROM @job_schedule WHERE due_at IS NOT NULL
GROUP BY namespace ORDER BY min(due_at), namespace LIMIT :limit`,
)

const listNamespaces = operation({
  name: 'list namespaces with schedules',
  isRead: true,
  *procedure(limit: number) {
    const rows = yield* many<{ namespace: string }>(selectNamespaces({ limit }))
    return rows.map(({ namespace }) => namespace)
  },
})

/** Namespaces in which a schedule will run, those first in which one is due first. */
export function listScheduledNamespaces(database: Database, limit: number): Promise<readonly string[]> {
  return database.run(listNamespaces, [limit])
}

/** Drivers give whole numbers as numbers or as text, and flags as numbers or booleans. */
interface ScheduleRow {
  readonly name: string
  readonly version: number | string
  readonly is_paused: boolean | number
  readonly next_at: number | string | null
  readonly last_slot_at: number | string | null
  readonly last_fired_at: number | string | null
  readonly created_at: number | string
  readonly doc: string
}

function decodeRow(row: ScheduleRow): ScheduleRecord {
  return {
    name: row.name,
    doc: row.doc,
    isPaused: Boolean(row.is_paused),
    nextAt: instant(row.next_at),
    version: Number(row.version),
    lastSlotAt: instant(row.last_slot_at),
    lastFiredAt: instant(row.last_fired_at),
    createdAt: Number(row.created_at),
  }
}

function instant(value: number | string | null): number | null {
  return value === null ? null : Number(value)
}
