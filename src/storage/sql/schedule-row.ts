import type { ScheduleRecord } from '../../jobs/index.ts'

/** A schedule as the SQL engines' statements give it: numbers as numbers or as decimal text. */
export interface ScheduleRow {
  readonly name: string
  readonly version: number | string
  readonly is_paused: boolean | number
  readonly next_at: number | string | null
  readonly last_slot_at: number | string | null
  readonly last_fired_at: number | string | null
  readonly created_at: number | string
  readonly doc: string
}

export const scheduleColumns =
  'name, version, is_paused, next_at, last_slot_at, last_fired_at, created_at, doc'

export function decodeScheduleRow(row: ScheduleRow): ScheduleRecord {
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
