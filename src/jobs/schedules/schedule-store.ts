import type { Added, NewJob } from '../job-store.ts'

/**
 * What schedules ask of a backend. A schedule is a row with a version; a run is due when its `nextAt` has come by the
 * store's clock. Firing moves the row on and adds the jobs in one transaction, on the version that was seen: of all the
 * servers that try, one does, and a server that dies in between has done neither.
 */
export interface ScheduleStore {
  /**
   * Writes a schedule if it still has the version `seen` (0: there is none); answers the new version, or null for too
   * late.
   */
  put(schedule: NewSchedule, seen: number): Promise<number | null>
  /** False: there was none. */
  remove(name: string): Promise<boolean>
  find(name: string): Promise<ScheduleRecord | undefined>
  /** By name; `after` is the last name of the page before. */
  list(query: { readonly limit: number; readonly after?: string }): Promise<readonly ScheduleRecord[]>
  /** Those not paused whose `nextAt` has come, the longest due first; and the store's clock. */
  due(limit: number): Promise<{ readonly schedules: readonly ScheduleRecord[]; readonly now: number }>
  /** When the next one is due; null: none ever. And the store's clock. */
  nextDue(): Promise<{ readonly nextAt: number | null; readonly now: number }>
  /**
   * Moves the schedule on and adds these jobs, both or neither, if it still has the version `seen` and is not paused
   * (`force`: paused or not). Null: too late, or paused; nothing was written. A unique key that is taken is no reason
   * not to move on: its answer says `duplicate`.
   */
  fire(fired: Fired): Promise<{ readonly version: number; readonly added: readonly Added[] } | null>
}

/** A schedule to be written. */
export interface NewSchedule {
  /** 1 to 191 printable characters, compared byte by byte. */
  readonly name: string
  /** JSON text: when it runs, what it adds, how it catches up. */
  readonly doc: string
  readonly isPaused: boolean
  /** Epoch milliseconds; null: never again. */
  readonly nextAt: number | null
}

/** A schedule as it is kept. */
export interface ScheduleRecord extends NewSchedule {
  readonly version: number
  /** The slot that ran last, and when it was fired; null: none yet. */
  readonly lastSlotAt: number | null
  readonly lastFiredAt: number | null
  readonly createdAt: number
}

/** A run of a schedule. */
export interface Fired {
  readonly name: string
  readonly seen: number
  readonly force: boolean
  readonly nextAt: number | null
  /** The newest slot that this run stands for; null leaves what is there (a run out of turn). */
  readonly slotAt: number | null
  readonly jobs: readonly NewJob[]
}
