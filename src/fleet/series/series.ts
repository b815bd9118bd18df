import type { Duration } from '../../core/duration.ts'

/** Which counts and times of jobs to read. */
export interface SeriesRequest {
  /** An instant, epoch milliseconds. @default an hour before `to` */
  readonly from?: number | undefined
  /** @default now, by the store's clock */
  readonly to?: number | undefined
  /** A number of whole minutes. @default the shortest step with at most 200 points */
  readonly step?: Duration | undefined
  /** Only this queue. @default all */
  readonly queue?: string | undefined
  /** Only this kind. @default all */
  readonly kind?: string | undefined
  /** One item for each queue or kind. @default one item for all */
  readonly by?: 'queue' | 'kind' | undefined
}

/** Counts and times of jobs over time, of all processes that use the store. */
export interface Series {
  /** The store's clock. The step of this instant is not complete. */
  readonly now: number
  /** The start of the first step, and the end of the last. */
  readonly from: number
  readonly to: number
  readonly stepMs: number
  /** The items with the most jobs first, up to 100. */
  readonly items: readonly SeriesItem[]
  /** Whether there were too many kinds: then the rest is added up as `other`. */
  readonly isFolded: boolean
}

export interface SeriesItem {
  /** Null: all. */
  readonly queue: string | null
  readonly kind: string | null
  readonly total: SeriesNumbers
  /** Oldest first, without empty steps. */
  readonly points: readonly SeriesPoint[]
}

export interface SeriesPoint extends SeriesNumbers {
  /** When the step began. */
  readonly at: number
}

export interface SeriesNumbers {
  readonly added: number
  readonly started: number
  readonly completed: number
  /** Attempts that failed, whose jobs are tried again. */
  readonly failed: number
  /** Jobs that failed for good. */
  readonly dead: number
  readonly cancelled: number
  /** The time from a job's due time until its attempt began; null: no attempt began. */
  readonly wait: Times | null
  /** The sum of these waits, by cause; causes without waits are left out. */
  readonly waitMsBy: Partial<Record<'queue' | 'limit' | 'lock' | 'dependency' | 'noWorker', number>>
  /** How long attempts ran; null: no attempt ended. */
  readonly run: Times | null
  /**
   * The most jobs that a server saw ready and running in the step; null: no server counted, or the item is of a kind.
   */
  readonly ready: number | null
  readonly running: number | null
}

/** A distribution. Percentiles are right within a fifth. */
export interface Times {
  readonly count: number
  readonly sumMs: number
  readonly p50Ms: number
  readonly p90Ms: number
  readonly p99Ms: number
}
