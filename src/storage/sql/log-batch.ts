import type { LogLevel, LogUpdate } from '../../jobs/index.ts'
import { logLimits } from './log-row.ts'

/** All that one call says of one attempt. */
export interface AttemptLog {
  readonly jobId: string
  readonly attempt: number
  /** The latest; null: nothing about that. */
  readonly progress: string | null
  /** How many lines there are. */
  readonly lineCount: number
  /** Those that an attempt which has said nothing yet would keep; the others fit in no case, and are only counted. */
  readonly logs: readonly SizedLogLine[]
}

export interface SizedLogLine {
  readonly level: LogLevel
  readonly text: string
  /** The bytes of this call's lines of the attempt, up to and with this one. */
  readonly bytesSoFar: number
}

/** The updates of a call by attempt, in the order in which everybody locks them: by job, then attempt. */
export function gatherUpdates(updates: readonly LogUpdate[]): readonly AttemptLog[] {
  const said = updates.filter(({ progress, logs }) => progress !== null || logs.length > 0)
  const attempts = Map.groupBy(said, ({ jobId, attempt }) => `${jobId} ${attempt}`)
  return [...attempts.values()].map(gather).sort(byAttempt)
}

function gather(updates: readonly LogUpdate[]): AttemptLog {
  const [{ jobId, attempt }] = updates as [LogUpdate]
  const lines = updates.flatMap((note) => note.logs)
  let bytesSoFar = 0
  const sized = lines.slice(0, logLimits.maxLines).map(({ level, text }) => {
    bytesSoFar += Buffer.byteLength(text)
    return { level, text, bytesSoFar }
  })
  return {
    jobId,
    attempt,
    progress: updates.findLast(({ progress }) => progress !== null)?.progress ?? null,
    lineCount: lines.length,
    logs: sized.filter((line) => line.bytesSoFar <= logLimits.maxLineBytes),
  }
}

function byAttempt(a: AttemptLog, b: AttemptLog): number {
  if (a.jobId !== b.jobId) return a.jobId < b.jobId ? -1 : 1
  return a.attempt - b.attempt
}
