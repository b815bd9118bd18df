/**
 * What attempts say of themselves while they run: progress and log lines. Kept beside the jobs, never in the way of
 * them: a note is no reason for a claim to wait, and a job ends whether or not its notes arrived.
 */
export interface NoteStore {
  /**
   * Keeps notes, all in one step. The latest progress of an attempt replaces the one before. Lines are added behind those
   * of the attempt, numbered from 1 in the order they came; beyond `maxLines` or `maxLineBytes` of one attempt they are
   * dropped and counted instead.
   */
  add(notes: readonly Note[]): Promise<void>
  /**
   * The progress of these jobs that was said last, whichever attempt said it: after a retry their numbers begin at 1
   * again. Of what was said in the same millisecond, the higher attempt's. Jobs without are left out.
   */
  progress(jobIds: readonly string[]): Promise<readonly ProgressRecord[]>
  /** Lines of a job, by attempt and number; those after `after`, up to `limit`. */
  logs(jobId: string, query: LogQuery): Promise<readonly LogLine[]>
  /** Forgets up to `limit` jobs' notes that were last added to longer ago than that; answers how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** What an attempt has to say at one time. */
export interface Note {
  readonly jobId: string
  readonly attempt: number
  /** JSON text; null: nothing about that. */
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

/** What is kept of one attempt at most; the last line says how many were dropped. */
export const noteLimits = { maxLines: 500, maxLineBytes: 65_536 } as const
