/**
 * Progress and log lines that attempts write while they run. They are kept beside the jobs: no claim waits for them,
 * and a job ends whether or not they arrived.
 */
export interface LogStore {
  /**
   * Writes updates, all in one step. The latest progress of an attempt replaces the one before. Log lines are appended
   * to those of the attempt, numbered from 1. Beyond `maxLines` or `maxLineBytes` of one attempt, they are counted and
   * dropped.
   */
  add(updates: readonly LogUpdate[]): Promise<void>
  /**
   * The latest progress of these jobs, whichever attempt wrote it: after a retry, attempts count from 1 again. Within
   * one millisecond, the higher attempt's. Jobs without progress are left out.
   */
  progress(jobIds: readonly string[]): Promise<readonly ProgressRecord[]>
  /** Log lines of a job, by attempt and number, behind `after`, up to `limit`. */
  logs(jobId: string, query: LogQuery): Promise<readonly LogLine[]>
  /** Removes the logs and progress of up to `limit` jobs without an update since then. Returns how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** Progress and log lines of an attempt, of one moment. */
export interface LogUpdate {
  readonly jobId: string
  readonly attempt: number
  /** JSON text; null: no new progress. */
  readonly progress: string | null
  readonly logs: readonly NewLogLine[]
}

export interface NewLogLine {
  readonly level: LogLevel
  readonly text: string
}

export type LogLevel = 'info' | 'warn' | 'error'

/** How far an attempt is. */
export interface ProgressRecord {
  readonly jobId: string
  readonly attempt: number
  readonly progress: string
  /** By the store's clock. */
  readonly at: number
}

export interface LogLine {
  readonly attempt: number
  readonly number: number
  readonly level: LogLevel
  readonly text: string
  /** By the store's clock. */
  readonly at: number
}

export interface LogQuery {
  readonly limit: number
  /** The last one of the page before. */
  readonly after?: { readonly attempt: number; readonly number: number }
}

/** The most that is kept of one attempt; the last line says how many lines were dropped. */
export const logLimits = { maxLines: 500, maxLineBytes: 65_536 } as const
