import type { Fired, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { readAll, readNamespaces, readOne } from './operations.ts'
import { addJobs, count, last, type Operation, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/**
 * The schedules of one namespace. A schedule is a row with a version. `due_at` is its next run, or null while it is
 * paused. A run is one transaction: it updates the row if the row still has the version that was read, which locks the
 * row, and then adds the jobs. `src/jobs/schedules` decides which slots run and when the next one is due.
 */
export function createScheduleStore(database: Database, namespace: string): ScheduleStore {
  return {
    put: (schedule, seen) => database.run(putSchedule, [namespace, schedule, seen]),
    remove: (name) => database.run(removeSchedule, [namespace, name]),
    find: (name) => database.run(findSchedule, [namespace, name]),
    list: (query) => database.run(listSchedules, [namespace, query]),
    due: (limit) => database.run(listDue, [namespace, limit]),
    nextDue: async () => (await database.run(findNextDue, [namespace]))!,
    fire: (fired) => database.run(fireSchedule, [namespace, fired]),
  }
}

const stored = columns<ScheduleRecord>({
  ...{ name: 'text', version: 'integer', isPaused: 'boolean', nextAt: 'integer | null' },
  ...{ lastSlotAt: 'integer | null', lastFiredAt: 'integer | null', createdAt: 'integer', doc: 'text' },
})
const key = { namespace: 'text', name: 'text' } as const
const content = { doc: 'text', isPaused: 'boolean', nextAt: 'integer | null' } as const

// The version of a new schedule starts at the clock, in microseconds: above all versions that its name had before.
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
  () => `SELECT ${stored.names} FROM @job_schedule WHERE namespace = :namespace AND name = :name`,
)

const putSchedule = operation({
  name: 'write a schedule',
  connectionGroup: 'waiting',
  *procedure(namespace: string, { name, doc, isPaused, nextAt }: NewSchedule, seen: number) {
    const written = { namespace, name, doc, isPaused, nextAt }
    if (seen !== 0) return (yield* last(count(update({ ...written, seen })))) === 1 ? seen + 1 : null
    const [made, found] = yield* last(run(insert(written), selectOne({ namespace, name })))
    return made!.rowCount === 1 ? stored.decode(found!.rows[0]).version : null
  },
})

const remove = statement(
  'schedule_remove',
  key,
  () => 'DELETE FROM @job_schedule WHERE namespace = :namespace AND name = :name',
)

const removeSchedule = operation({
  name: 'remove a schedule',
  connectionGroup: 'waiting',
  *procedure(namespace: string, name: string) {
    return (yield* last(count(remove({ namespace, name })))) === 1
  },
})

const findSchedule = readOne(
  'find a schedule',
  (namespace: string, name: string) => selectOne({ namespace, name }),
  stored.decode,
)

const selectPage = statement(
  'schedule_list',
  { namespace: 'text', 'after?': 'text', limit: 'integer' },
  () => `
SELECT ${stored.names} FROM @job_schedule WHERE namespace = :namespace {AND name > :after} ORDER BY name LIMIT :limit`,
)

const listSchedules = readAll(
  'list schedules',
  (namespace: string, { after, limit }: { readonly limit: number; readonly after?: string }) =>
    selectPage({ namespace, after, limit }),
  stored.decode,
)

const selectClock = statement('schedule_clock', {}, (d) => `SELECT ${d.now} AS now`)

const selectDue = statement(
  'schedule_due',
  { namespace: 'text', limit: 'integer' },
  (d) => `
SELECT ${stored.names} FROM @job_schedule ${d.byIndex('job_schedule_due')}
WHERE namespace = :namespace AND due_at <= ${d.now} ORDER BY due_at, name LIMIT :limit`,
)

const listDue = operation({
  name: 'list due schedules',
  isRead: true,
  *procedure(namespace: string, limit: number) {
    const [clock, found] = yield* run(selectClock({}), selectDue({ namespace, limit }))
    const schedules = found!.rows.map(stored.decode)
    // If a schedule became due between the two statements, use its time as the clock: no listed schedule is due in the
    // future.
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

const next = columns<{ readonly now: number; readonly nextAt: number | null }>({
  ...{ now: 'integer', nextAt: 'integer | null' },
})

const findNextDue = readOne(
  'find the next due schedule',
  (namespace: string) => selectNext({ namespace }),
  next.decode,
)

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
  connectionGroup: 'waiting',
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

/** Lists namespaces with a schedule that will run, ordered by their next due time. */
export const listScheduledNamespaces: Operation<readonly [limit: number], readonly string[]> = readNamespaces(
  'list namespaces with schedules',
  selectNamespaces,
)
