import { type ScheduleDoc, slotsOf } from './schedule-document.ts'

/** What a schedule does whose time has come. */
export interface SchedulePlan {
  /** The slots to run, oldest first. */
  readonly slots: readonly number[]
  readonly nextAt: number | null
}

/** So many missed slots are run at most. */
export const maxCaughtUp = 100
/** A slot that is later than that was missed, not delayed. */
export const missedAfterMs = 60_000

/** Which of the slots from `dueAt` up to now run, and when it is due next. */
export function planSchedule(doc: ScheduleDoc, dueAt: number, now: number): SchedulePlan {
  const slots = slotsOf(doc)
  const come = slots.newest(dueAt - 1, now, doc.catchUp === 'all' ? maxCaughtUp : 1)
  return {
    slots: doc.catchUp === 'none' ? come.filter((slot) => now - slot <= missedAfterMs) : come,
    nextAt: slots.next(now),
  }
}
