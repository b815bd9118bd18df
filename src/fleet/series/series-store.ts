import type { SeriesKeep, SeriesRow } from '../rules/index.ts'

/**
 * Counts and times of jobs in steps of time, in one namespace. Each process writes its own rows, with all counts of a
 * minute so far; so a write may be repeated. After a minute and its time for writes, `merge` merges the rows of all
 * processes. All instants are of the store's clock.
 */
export interface SeriesStore {
  /** The store's clock. */
  now(): Promise<number>
  /**
   * Writes the counts of `source` in these minutes and replaces its earlier counts of the same minutes. A closed minute
   * does not change. Returns the minutes that were written.
   */
  write(
    source: string,
    rows: readonly SeriesRow[],
  ): Promise<{ readonly now: number; readonly written: readonly number[] }>
  /** Rows from `from` to before `to`, in any order: steps of `stepMs` where these are complete, else smaller steps. */
  read(query: SeriesQuery): Promise<{ readonly now: number; readonly rows: readonly SeriesRow[] }>
  /** All counts so far, by queue and kind; `bucketAt` has no meaning. Rows of the same queue and kind add up. */
  totals(): Promise<readonly SeriesRow[]>
  /** Merges some closed steps and deletes some old ones. Returns whether there is more to do. */
  merge(keep: SeriesKeep): Promise<boolean>
}

export interface SeriesQuery {
  readonly from: number
  readonly to: number
  /** One of the stored steps. */
  readonly stepMs: number
  readonly queue?: string | undefined
  readonly kind?: string | undefined
}
