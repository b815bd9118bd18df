import type { LogLine, LogQuery, LogStore, LogUpdate, ProgressRecord } from '../../jobs/index.ts'
import { keptForRetry, type LogCounters, placeLines } from '../sql/log-row.ts'

/** Logs and progress of the attempts of one namespace, by job and then by attempt. */
export class MemoryLogs implements LogStore {
  readonly #now: () => number
  readonly #jobs = new Map<string, Map<number, AttemptLog>>()

  constructor(now: () => number) {
    this.#now = now
  }

  async add(updates: readonly LogUpdate[]): Promise<void> {
    const now = this.#now()
    for (const note of updates) {
      if (note.progress === null && note.logs.length === 0) continue
      const log = this.#logOf(note)
      log.writtenAt = now
      if (note.progress !== null) log.progress = { progress: note.progress, at: now }
      const { kept, dropped, counters: counts } = placeLines(log.counts, note.logs)
      log.counts = counts
      for (const line of dropped ? [...kept, dropped] : kept) {
        log.lines[line.number - 1] = { attempt: note.attempt, ...line, at: now }
      }
    }
  }

  async progress(jobIds: readonly string[]): Promise<readonly ProgressRecord[]> {
    return [...new Set(jobIds)].flatMap((jobId) => {
      const [latest] = this.#attemptsOf(jobId)
        .flatMap(([attempt, { progress }]) => (progress === null ? [] : [{ jobId, attempt, ...progress }]))
        .sort((a, b) => a.at - b.at || a.attempt - b.attempt)
        .slice(-1)
      return latest ? [latest] : []
    })
  }

  async logs(jobId: string, { limit, after }: LogQuery): Promise<readonly LogLine[]> {
    const isAfter = ({ attempt, number }: LogLine) =>
      after === undefined || attempt > after.attempt || (attempt === after.attempt && number > after.number)
    return this.#attemptsOf(jobId)
      .flatMap(([, { lines }]) => lines)
      .filter(isAfter)
      .slice(0, limit)
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const cutoff = this.#now() - olderThanMs
    const old = [...this.#jobs]
      .map(([jobId, attempts]) => ({
        jobId,
        at: Math.max(...[...attempts.values()].map((log) => log.writtenAt)),
      }))
      .filter(({ at }) => at < cutoff)
      .sort((a, b) => a.at - b.at)
      .slice(0, limit)
    this.forget(old.map(({ jobId }) => jobId))
    return old.length
  }

  /** The job is retried: deletes the log lines of earlier attempts that use up the limit. */
  deleteFullLogs(jobId: string): void {
    for (const [attempt, { counts }] of this.#attemptsOf(jobId)) {
      const { lineCount, lineBytes } = counts
      if (lineCount > keptForRetry.lineCount || lineBytes > keptForRetry.lineBytes)
        this.#jobs.get(jobId)!.delete(attempt)
    }
  }

  forget(jobIds: readonly string[]): void {
    for (const jobId of jobIds) this.#jobs.delete(jobId)
  }

  /** The attempts of a job, oldest first. */
  #attemptsOf(jobId: string): (readonly [attempt: number, log: AttemptLog])[] {
    return [...(this.#jobs.get(jobId) ?? [])].sort(([a], [b]) => a - b)
  }

  #logOf({ jobId, attempt }: LogUpdate): AttemptLog {
    const attempts = this.#jobs.get(jobId) ?? new Map<number, AttemptLog>()
    this.#jobs.set(jobId, attempts)
    const counts = { lineCount: 0, lineBytes: 0, droppedCount: 0 }
    const log = attempts.get(attempt) ?? { progress: null, lines: [], counts, writtenAt: 0 }
    attempts.set(attempt, log)
    return log
  }
}

/** The log lines and progress of one attempt. */
interface AttemptLog {
  progress: { readonly progress: string; readonly at: number } | null
  readonly lines: LogLine[]
  counts: LogCounters
  writtenAt: number
}
