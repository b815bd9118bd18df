/**
 * Progress and log lines that attempts write while they run. The store keeps them apart from the jobs: no claim waits
 * for them, and a job ends whether or not they arrived.
 */
export interface LogStore {
  /**
   * Writes all updates in one step. The latest progress of an attempt replaces the previous one. The log lines of an
   * attempt are numbered from 1. Lines beyond `maxLines` or `maxLineBytes` of one attempt are counted and dropped.
   */
  add(updates: readonly LogUpdate[]): Promise<void>
  /**
   * The latest progress of these jobs, of any attempt: after a retry, attempts count from 1 again. Within one
   * millisecond, the progress of the higher attempt. Omits jobs without progress.
   */
  progress(jobIds: readonly string[]): Promise<readonly ProgressRecord[]>
  /** Log lines of a job, by attempt and number, behind `after`, up to `limit`. */
  logs(jobId: string, query: LogQuery): Promise<readonly LogLine[]>
  /** Removes the logs and progress of up to `limit` jobs without an update for `olderThanMs`. Returns their number. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** An update of the progress and log lines of an attempt. */
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

/** The latest progress of a job. */
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
  /** The last line of the previous page. */
  readonly after?: { readonly attempt: number; readonly number: number }
}

/** The limits of the log of an attempt. Its last line says how many lines were dropped. */
export const logLimits = { maxLines: 500, maxLineBytes: 65_536 } as const
