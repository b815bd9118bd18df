import type { Added, NewJob } from '../job-store.ts'

/**
 * The store of schedules. A schedule is a row with a version. A run is due when its `nextAt` is reached by the store's
 * clock. Firing advances the row and adds the jobs in one transaction, if the row still has the version that the caller
 * read. So of all servers that try, one succeeds, and a server that dies meanwhile has done neither.
 */
export interface ScheduleStore {
  /**
   * Writes a schedule if it still has the version `seen` (0: no row). Returns the new version, or null if it was too
   * late.
   */
  put(schedule: NewSchedule, seen: number): Promise<number | null>
  /** Returns false if there was none. */
  remove(name: string): Promise<boolean>
  find(name: string): Promise<ScheduleRecord | undefined>
  /** By name; `after` is the last name of the page before. */
  list(query: { readonly limit: number; readonly after?: string }): Promise<readonly ScheduleRecord[]>
  /** Returns the due schedules that are not paused, the longest due first, and the store's clock. */
  due(limit: number): Promise<{ readonly schedules: readonly ScheduleRecord[]; readonly now: number }>
  /** Returns when the next schedule is due (null: never), and the store's clock. */
  nextDue(): Promise<{ readonly nextAt: number | null; readonly now: number }>
  /**
   * Advances the schedule and adds these jobs, both or neither, if it still has the version `seen` and is not paused
   * (`force`: paused or not). Null: too late, or paused; nothing was written. If the unique key of a job is taken, the
   * schedule still advances, and the answer for that job says `duplicate`.
   */
  fire(fired: Fired): Promise<{ readonly version: number; readonly added: readonly Added[] } | null>
}

/** A schedule to write. */
export interface NewSchedule {
  /** 1 to 191 printable characters, compared byte by byte. */
  readonly name: string
  /** JSON text: the times of its runs, the job that it adds, and how it catches up. */
  readonly doc: string
  readonly isPaused: boolean
  /** Epoch milliseconds; null: no further run. */
  readonly nextAt: number | null
}

/** A stored schedule. */
export interface ScheduleRecord extends NewSchedule {
  readonly version: number
  /** The slot that ran last, and the time of that run; null: no run yet. */
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
  /** The newest slot of this run; null keeps the stored slot (a run out of turn). */
  readonly slotAt: number | null
  readonly jobs: readonly NewJob[]
}
