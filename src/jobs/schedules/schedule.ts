import type { Backoff } from '../../core/backoff.ts'
import type { Duration } from '../../core/duration.ts'
import type { JobToAdd } from '../api/add-options.ts'

/** A schedule as its users see it. Instants are epoch milliseconds of the store's clock. */
export interface Schedule {
  readonly name: string
  /** Null for a fixed rate. */
  readonly cron: string | null
  readonly timeZone: string | null
  /** Null for a cron line. */
  readonly everyMs: number | null
  /** The first slot of a fixed rate. */
  readonly startAt: number | null
  /** No slot after it counts. */
  readonly endAt: number | null
  readonly catchUp: CatchUp
  readonly job: ScheduledJob
  readonly paused: boolean
  /** The next slot; null: never again, or not before it is resumed. */
  readonly nextAt: number | null
  /** The newest slot that ran. */
  readonly lastSlotAt: number | null
  /** When it ran last, in its turn or out of it. */
  readonly lastFiredAt: number | null
  readonly createdAt: number
}

/** The job that each run adds. */
export interface ScheduledJob {
  readonly kind: string
  readonly queue: string
  readonly payload: unknown
  readonly priority: number
  readonly uniqueKey: string | null
  readonly maxAttempts: number
  readonly backoff: Backoff
  readonly timeoutMs: number | null
  readonly tags: readonly string[]
  readonly limitKey: string | null
  readonly lock: { readonly operation: string; readonly resource: string } | null
}

/**
 * What becomes of slots that nobody was there to run: `one` run for all of them, `all` of them, the newest hundred at
 * most, or `none`; a slot counts as missed when a later one has come too, or after a minute.
 */
export type CatchUp = 'none' | 'one' | 'all'

/** When a schedule runs, and what it adds. */
export type ScheduleOptions = (CronOptions | RateOptions) & {
  /** The job that each run adds; made by hand, or by a definition's `job`. When it runs is the schedule's to say. */
  readonly job: Omit<JobToAdd, keyof Pick<JobToAdd, 'runAt' | 'delayMs' | 'after' | 'ref'>>
  /** @default 'one' */
  readonly catchUp?: CatchUp | undefined
  /** No slot after it counts. @default none */
  readonly endAt?: number | Date | null | undefined
  /** @default as it is; a new one is not paused */
  readonly paused?: boolean | undefined
}

export interface CronOptions {
  /** '0 9 * * 1-5': minute, hour, day of the month, month, day of the week; or six fields with the second first. */
  readonly cron: string
  /** @default 'UTC' */
  readonly timeZone?: string | undefined
  readonly everyMs?: undefined
  readonly startAt?: undefined
}

export interface RateOptions {
  /** From 100 ms to a year, or text like '1m'. */
  readonly everyMs: Duration
  /** The first slot; all others are whole multiples of `everyMs` after it. @default `everyMs` after it was made */
  readonly startAt?: number | Date | null | undefined
  readonly cron?: undefined
  readonly timeZone?: undefined
}
