import type { Added, Fired, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import { begin, type Call, commit, rowCount } from './connection/calls.ts'
import { now, nowMs, setNow } from './connection/clock.ts'
import { PinnedCalls } from './connection/pinned.ts'
import type { Store } from './engine-store.ts'
import { createAdd } from './jobs/add.ts'

/**
 * Schedules on MariaDB. A run is one transaction: the row is moved on if it is as it was seen, which keeps it locked;
 * then the jobs are added as ever.
 */
export function createMariadbSchedules(store: Store): ScheduleStore {
  const { calls, tables, namespace } = store
  const read = (rest: string, values: readonly unknown[]) =>
    calls.run('read schedules', async (call) => {
      const sql = `SELECT ${columns} FROM ${tables.schedule} WHERE namespace = ? AND ${rest}`
      const rows = await call.rows<ScheduleRow>(sql, [namespace, ...values])
      return rows.map(decodeSchedule)
    })
  return {
    put: (schedule, seen) => put(store, schedule, seen),
    remove: (name) =>
      calls.run('remove a schedule', async (call) => {
        const sql = `DELETE FROM ${tables.schedule} WHERE namespace = ? AND name = ?`
        const [answer] = await call.packet([[sql, [namespace, name]]])
        return rowCount(answer) > 0
      }),
    find: async (name) => (await read('name = ?', [name]))[0],
    list: ({ limit, after = '' }) => read('name > ? ORDER BY name LIMIT ?', [after, limit]),
    due: (limit) =>
      calls.run('read due schedules', async (call) => {
        const [, [clock], rows] = (await call.packet([
          setNow,
          [`SELECT ${now} AS now`, []],
          [
            `SELECT ${columns} FROM ${tables.schedule} FORCE INDEX (job_schedule_due)
              WHERE namespace = ? AND due_at <= ${now} ORDER BY due_at, name LIMIT ?`,
            [namespace, limit],
          ],
        ])) as [unknown, [{ now: number | string }], ScheduleRow[]]
        return { schedules: rows.map(decodeSchedule), now: Number(clock.now) }
      }),
    nextDue: () =>
      calls.run('read due schedules', async (call) => {
        const [row] = await call.rows<{ now: number | string; next_at: number | string | null }>(
          `SELECT ${nowMs} AS now,
            (SELECT MIN(due_at) FROM ${tables.schedule} WHERE namespace = ?) AS next_at`,
          [namespace],
        )
        return { nextAt: instant(row!.next_at), now: Number(row!.now) }
      }),
    fire: (fired) => fire(store, fired),
  }
}

function put(store: Store, schedule: NewSchedule, seen: number): Promise<number | null> {
  return store.calls.run('write a schedule', async (call) => {
    if (seen === 0) return make(store, call, schedule)
    const { name, doc, isPaused, nextAt } = schedule
    const [answer] = await call.packet([
      [
        `UPDATE ${store.tables.schedule} SET version = version + 1, doc = ?, is_paused = ?, next_at = ?
          WHERE namespace = ? AND name = ? AND version = ?`,
        [doc, isPaused, nextAt, store.namespace, name, seen],
      ],
    ])
    return rowCount(answer) === 1 ? seen + 1 : null
  })
}

/** A new one begins at the clock, in microseconds: above all versions that its name had before. */
async function make(
  { tables, namespace }: Store,
  call: Call,
  { name, doc, isPaused, nextAt }: NewSchedule,
): Promise<number | null> {
  const [, [first], answer] = (await call.packet([
    [`SET @signalbox_version = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`, []],
    ['SELECT @signalbox_version AS version', []],
    [
      `INSERT INTO ${tables.schedule} (namespace, name, version, doc, is_paused, next_at, created_at)
        VALUES (?, ?, @signalbox_version, ?, ?, ?, ${nowMs}) ON DUPLICATE KEY UPDATE version = ${tables.schedule}.version`,
      [namespace, name, doc, isPaused, nextAt],
    ],
  ])) as [unknown, [{ version: number | string }], unknown]
  return rowCount(answer) === 1 ? Number(first.version) : null
}

async function fire(
  store: Store,
  { name, seen, force, nextAt, slotAt, jobs }: Fired,
): Promise<{ readonly version: number; readonly added: readonly Added[] } | null> {
  const { calls, tables, namespace } = store
  return calls.run('run a schedule', async (call) => {
    const [, moved] = await call.packet([
      begin,
      [
        `UPDATE ${tables.schedule} SET version = version + 1, next_at = ?, last_slot_at = COALESCE(?, last_slot_at),
            last_fired_at = ${nowMs}
          WHERE namespace = ? AND name = ? AND version = ? AND (? OR NOT is_paused)`,
        [nextAt, slotAt, namespace, name, seen, force],
      ],
    ])
    if (rowCount(moved) === 0) {
      await call.packet([['ROLLBACK', []]])
      return null
    }
    const pinned = new PinnedCalls(call)
    const added = await createAdd({ ...store, calls: pinned })(jobs)
    await call.packet([commit])
    pinned.committed()
    return { version: seen + 1, added }
  })
}

const columns = 'name, doc, is_paused, next_at, version, last_slot_at, last_fired_at, created_at'

interface ScheduleRow {
  readonly name: string
  readonly doc: string
  readonly is_paused: number
  readonly next_at: number | string | null
  readonly version: number | string
  readonly last_slot_at: number | string | null
  readonly last_fired_at: number | string | null
  readonly created_at: number | string
}

function decodeSchedule(row: ScheduleRow): ScheduleRecord {
  return {
    name: row.name,
    doc: row.doc,
    isPaused: row.is_paused === 1,
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
