import type { SeriesKeep, SeriesRow } from '../rules/index.ts'

/**
 * Counts and times of jobs in steps of time, in one namespace. Each process writes rows of its own, with all that it
 * counted in a minute so far; so a write may be repeated. When a minute is over and its time to be written, too, `roll`
 * adds the rows of all processes up. All instants are those of the store's clock.
 */
export interface SeriesStore {
  /** The store's clock. */
  now(): Promise<number>
  /**
   * Writes what `source` counted in these minutes, in place of what it wrote of them before. A minute that is closed by
   * then is left as it is. Returns the minutes that were written.
   */
  write(
    source: string,
    rows: readonly SeriesRow[],
  ): Promise<{ readonly now: number; readonly written: readonly number[] }>
  /** Rows from `from` to before `to`, by steps of `stepMs` where these are complete, else by smaller ones. In any order. */
  read(query: SeriesQuery): Promise<{ readonly now: number; readonly rows: readonly SeriesRow[] }>
  /** All that was ever counted, by queue and kind; `bucketAt` means nothing. Rows of the same queue and kind add up. */
  totals(): Promise<readonly SeriesRow[]>
  /** Puts closed steps together and deletes old ones, a part of it. Returns whether there is more to do. */
  roll(keep: SeriesKeep): Promise<boolean>
}

export interface SeriesQuery {
  readonly from: number
  readonly to: number
  /** One of the steps that are kept. */
  readonly stepMs: number
  readonly queue?: string | undefined
  readonly kind?: string | undefined
}
