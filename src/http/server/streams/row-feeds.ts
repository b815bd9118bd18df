import { Batcher } from '../../../core/batcher.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createNotifier } from '../../../core/notifier.ts'
import { refuse } from '../../../core/options.ts'
import {
  type FoundJob,
  isFinal,
  type JobEnd,
  type JobLogLine,
  type JobState,
  type JobStore,
  type Jobs,
  type JobWaits,
  jobStates,
} from '../../../jobs/index.ts'
import type { Feed, FeedEvent } from '../call.ts'
import { createReaderFeed, readEventId } from './watch-feeds.ts'

/**
 * The states, the progress and the log lines of one job, for one reader, read from their rows. The id of each event
 * says what the reader has, so any server can continue after it:
 *
 *     running.2    the last state sent, and its attempt
 *     .1790…       the report time of the last progress sent
 *     .2.17.1790…  the last log line sent: attempt, number, instant
 *
 * The feed sleeps in the shared waits, so it sees a change of state at once or by their poll. While the job runs, the
 * feed reads progress and log lines once a second.
 */
interface JobFeedParts {
  readonly jobs: Pick<Jobs, 'find' | 'logs'>
  readonly waits: Pick<JobWaits, 'changed'>
}

const runningMs = 1_000
const idleMs = 5_000
/** The worker may write the last log lines of an attempt a moment after its end. */
const afterEndMs = 1_000
const linesAtOnce = 200

export function createJobFeed(parts: JobFeedParts, jobId: string): Feed {
  return createReaderFeed((lastEventId, signal) =>
    followJob(parts, jobId, decodePosition(lastEventId), signal),
  )
}

/** What the reader has. */
interface Position {
  state: JobState | ''
  attempt: number
  progressAt: number
  log: Pick<JobLogLine, 'attempt' | 'number' | 'at'>
}

const positionPattern = /^([a-z]*)\.(\d{1,6})\.(\d{1,16})\.(\d{1,6})\.(\d{1,6})\.(\d{1,16})$/

function decodePosition(text: string | undefined): Position {
  if (text === undefined)
    return { state: '', attempt: 0, progressAt: 0, log: { attempt: 0, number: 0, at: 0 } }
  const [, state, ...numbers] = positionPattern.exec(text) ?? []
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

function encodePosition({ state, attempt, progressAt, log }: Position): string {
  return [state, attempt, progressAt, log.attempt, log.number, log.at].join('.')
}

async function* followJob(
  { jobs, waits }: JobFeedParts,
  jobId: string,
  position: Position,
  signal: AbortSignal,
): AsyncGenerator<FeedEvent> {
  for (let isEnding = false; ; ) {
    const job = await jobs.find(jobId)
    if (job === undefined)
      throw new SignalboxError('not_found', `The job "${jobId}" no longer exists: it was deleted.`)
    const isOver = isFinal(job.state)
    if (!isOver) yield* newState(job, position)
    yield* newProgress(job, position)
    yield* newLogs(jobs, job, position)
    // The reader gets the final state after the log lines.
    if (isOver) yield* newState(job, position)
    if (isOver && isEnding) return
    isEnding = isOver
    const sleepMs = isOver ? afterEndMs : job.state === 'running' ? runningMs : idleMs
    await waits.changed(jobId, job.state, sleepMs, signal)
  }
}

function eventAt(position: Position, type: string, data: unknown): FeedEvent {
  return { id: encodePosition(position), type, data }
}

function* newState(job: FoundJob, position: Position): Generator<FeedEvent> {
  if (position.state === job.state && position.attempt === job.attempt) return
  position.state = job.state
  position.attempt = job.attempt
  const { id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested } = job
  yield eventAt(position, 'state', {
    ...{ id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested },
  })
}

function* newProgress({ progress }: FoundJob, position: Position): Generator<FeedEvent> {
  if (progress === null || progress.at <= position.progressAt) return
  position.progressAt = progress.at
  yield eventAt(position, 'progress', progress)
}

async function* newLogs(
  jobs: Pick<Jobs, 'logs'>,
  { id, attempt }: FoundJob,
  position: Position,
): AsyncGenerator<FeedEvent> {
  const { log } = position
  // After a retry, attempts count from 1 again, so new log lines sort before old ones.
  const isRetried = attempt < log.attempt
  let cursor: string | null = isRetried ? '0-0' : `${log.attempt}-${log.number}`
  while (cursor !== null) {
    const page: Awaited<ReturnType<Jobs['logs']>> = await jobs.logs(id, { limit: linesAtOnce, cursor })
    for (const line of page.items) {
      // A line of an attempt before the retry, which the reader has.
      const isOld = line.attempt > log.attempt && line.at < log.at
      if (isOld || (isRetried && line.at <= log.at)) continue
      position.log = { attempt: line.attempt, number: line.number, at: line.at }
      yield eventAt(position, 'log', line)
    }
    cursor = page.cursor
  }
}

/**
 * The jobs of a queue that ended, for readers that may reconnect. An event's id is a position on the store's clock. A
 * reader that sends one gets the later rows.
 *
 *     ──────── overlap ────────┐
 *     …  a   b   (c commits late)   d │ now        each poll reads the overlap again and skips jobs that were sent
 *
 * A transaction commits after the instant that it writes, so a row may appear before rows that were sent already. So
 * each poll goes back one second, and every tenth goes back ten. The feed misses a job that commits more than ten
 * seconds after its end. The position moves on with the clock, so a poll of a quiet queue does not read the ends of all
 * other queues.
 *
 * Readers that poll at the same time share one statement.
 */
export class QueueEnds {
  readonly #polls: Batcher<string, readonly JobEnd[]>
  /** The store's clock. */
  readonly now: () => Promise<number>

  constructor(jobs: Pick<JobStore, 'ends'>, now: () => Promise<number>) {
    this.now = now
    this.#polls = new Batcher({
      run: (asked) => Promise.all(asked.map((text) => jobs.ends(JSON.parse(text)))),
      start: (begin) => void setTimeout(begin, gatherMs),
      mergesEqual: true,
      maxInFlight: 4,
    })
  }

  /** Reads one page of ended jobs. */
  async page(queue: string, from: number, after: string | undefined): Promise<readonly JobEnd[]> {
    return this.#polls.add(JSON.stringify({ queue, from, after, limit: pageSize }))
  }
}

const gatherMs = 20
const pageSize = 200
const pollMs = 1_000
const shortOverlapMs = 1_000
const overlapMs = 10_000
const longPollEvery = 10
/** Polls read from a whole second, so that readers of a queue send equal requests and share one statement. */
const stepMs = 1_000

export function createQueueFeed(ends: QueueEnds, queue: string): Feed {
  return createReaderFeed((lastEventId, signal) => {
    const resumesAt = lastEventId === undefined ? undefined : readEventId(lastEventId)
    return followQueue(ends, queue, resumesAt, signal)
  })
}

async function* followQueue(
  ends: QueueEnds,
  queue: string,
  resumesAt: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<FeedEvent> {
  /** The end time of each job that was sent, by job id. */
  const sent = new Map<string, number>()
  let now = await ends.now()
  /** The feed has sent everything up to here, except rows that commit late. */
  let position = resumesAt ?? now
  // A new reader gets only jobs that end after it connects.
  const beginsAt = resumesAt === undefined ? now : resumesAt - overlapMs
  const positionEvent = (type: 'open' | 'place') => ({ id: String(position), type, data: { at: position } })

  async function* poll(from: number): AsyncGenerator<FeedEvent> {
    let after: string | undefined
    for (let at = from; ; ) {
      const page = await ends.page(queue, at, after)
      for (const end of page) {
        if (sent.get(end.id) === end.finishedAt) continue
        sent.set(end.id, end.finishedAt)
        position = Math.max(position, end.finishedAt)
        yield { id: String(position), type: end.state, data: end }
      }
      const last = page.at(-1)
      if (last === undefined || page.length < pageSize) return
      at = last.finishedAt
      after = last.id
    }
  }

  yield positionEvent('open')
  for (let polls = 0; ; polls++) {
    const isLong = polls % longPollEvery === 0
    if (isLong) now = await ends.now()
    const from = Math.floor((position - (isLong ? overlapMs : shortOverlapMs)) / stepMs) * stepMs
    yield* poll(Math.max(from, beginsAt))
    position = Math.max(position, now)
    // A reader of a quiet queue gets a recent position, so that it does not resume far back.
    if (isLong && polls > 0) yield positionEvent('place')
    for (const [id, finishedAt] of sent) if (finishedAt < position - overlapMs - 2 * stepMs) sent.delete(id)
    await createNotifier().wait({ timeoutMs: pollMs, signal })
  }
}
