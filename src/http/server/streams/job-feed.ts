import { SignalboxError } from '../../../core/errors.ts'
import { refuse } from '../../../core/options.ts'
import {
  type FoundJob,
  isFinal,
  type JobLogLine,
  type JobState,
  type Jobs,
  type JobWaits,
  jobStates,
} from '../../../jobs/index.ts'
import type { Feed, FeedReader } from '../call.ts'

/**
 * One job for one reader: its states, its progress and its log lines, read from their rows. The id of each event says what the
 * reader has, so that any server can go on behind it:
 *
 *     running.2    the state and the attempt that were sent last
 *     .1790…       when the progress that was sent last was reported
 *     .2.17.1790…  the log line that was sent last: attempt, number, instant
 *
 * The feed sleeps in the shared waits, so a change of state is seen at once or by their poll. Of a running job, progress and
 * log lines are looked for once a second.
 */
export interface JobFeedParts {
  readonly jobs: Pick<Jobs, 'find' | 'logs'>
  readonly waits: Pick<JobWaits, 'changed'>
}

const runningMs = 1_000
const idleMs = 5_000
/** The last log lines of an attempt may be written a moment after its end. */
const afterEndMs = 1_000
const linesAtOnce = 200

export function createJobFeed(parts: JobFeedParts, jobId: string): Feed {
  return {
    open(lastEventId, reader) {
      const controller = new AbortController()
      void new JobFollower(parts, jobId, reader, decodePlace(lastEventId)).follow(controller.signal)
      return () => controller.abort(gone)
    },
  }
}

/** Created once: a reason of its own for each reader would cost as much as to tell it. */
const gone = new SignalboxError('closed', 'The reader of this stream has gone.')

/** What a reader has. */
interface Place {
  state: JobState | ''
  attempt: number
  progressAt: number
  log: Pick<JobLogLine, 'attempt' | 'number' | 'at'>
}

const places = /^([a-z]*)\.(\d{1,6})\.(\d{1,16})\.(\d{1,6})\.(\d{1,6})\.(\d{1,16})$/

function decodePlace(text: string | undefined): Place {
  if (text === undefined)
    return { state: '', attempt: 0, progressAt: 0, log: { attempt: 0, number: 0, at: 0 } }
  const [, state, ...numbers] = places.exec(text) ?? []
  const [attempt, progressAt, logAttempt, number, at] = numbers.map(Number)
  const isKnown = state === '' || (jobStates as readonly string[]).includes(state ?? 'none')
  if (!isKnown) refuse('The header Last-Event-ID', 'the id of an event of this stream', text)
  return {
    state: state as JobState | '',
    attempt: attempt!,
    progressAt: progressAt!,
    log: { attempt: logAttempt!, number: number!, at: at! },
  }
}

function encodePlace({ state, attempt, progressAt, log }: Place): string {
  return [state, attempt, progressAt, log.attempt, log.number, log.at].join('.')
}

class JobFollower {
  readonly #parts: JobFeedParts
  readonly #jobId: string
  readonly #reader: FeedReader
  readonly #place: Place

  constructor(parts: JobFeedParts, jobId: string, reader: FeedReader, place: Place) {
    this.#parts = parts
    this.#jobId = jobId
    this.#reader = reader
    this.#place = place
  }

  /** Never rejects. */
  async follow(signal: AbortSignal): Promise<void> {
    try {
      for (let endCount = 0; ; ) {
        const job = await this.#look(signal)
        if (signal.aborted) return
        if (isFinal(job.state) && ++endCount > 1) break
        const sleepMs = isFinal(job.state) ? afterEndMs : job.state === 'running' ? runningMs : idleMs
        await this.#parts.waits.changed(this.#jobId, job.state, sleepMs, signal)
      }
      this.#reader.end?.()
    } catch (error) {
      if (!signal.aborted) this.#reader.fail(error)
    }
  }

  /** Sends what is new. The end of a job comes behind the log lines that were written before it. */
  async #look(signal: AbortSignal): Promise<FoundJob> {
    const job = await this.#parts.jobs.find(this.#jobId)
    if (job === undefined) {
      throw new SignalboxError('not_found', `There is no job "${this.#jobId}" any more: it was deleted.`)
    }
    if (!isFinal(job.state)) this.#sendState(job)
    this.#sendProgress(job)
    await this.#sendLogs(job, signal)
    if (isFinal(job.state) && !signal.aborted) this.#sendState(job)
    return job
  }

  #sendState(job: FoundJob): void {
    const place = this.#place
    if (place.state === job.state && place.attempt === job.attempt) return
    place.state = job.state
    place.attempt = job.attempt
    const { id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested } = job
    this.#send('state', {
      ...{ id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested },
    })
  }

  #sendProgress({ progress }: FoundJob): void {
    if (progress === null || progress.at <= this.#place.progressAt) return
    this.#place.progressAt = progress.at
    this.#send('progress', progress)
  }

  async #sendLogs({ attempt }: FoundJob, signal: AbortSignal): Promise<void> {
    const { log } = this.#place
    // After a retry attempts count from 1 again, and new lines stand before old ones.
    const isAnew = attempt < log.attempt
    let cursor: string | null = isAnew ? '0-0' : `${log.attempt}-${log.number}`
    while (cursor !== null) {
      const page: Awaited<ReturnType<Jobs['logs']>> = await this.#parts.jobs.logs(this.#jobId, {
        limit: linesAtOnce,
        cursor,
      })
      if (signal.aborted) return
      for (const line of page.items) {
        // It is of an attempt from before the retry, and was sent then.
        const isOld = line.attempt > log.attempt && line.at < log.at
        if (isOld || (isAnew && line.at <= log.at)) continue
        this.#place.log = { attempt: line.attempt, number: line.number, at: line.at }
        this.#send('log', line)
      }
      cursor = page.cursor
    }
  }

  #send(type: string, data: unknown): void {
    this.#reader.send({ id: encodePlace(this.#place), type, data })
  }
}
