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
  return createReaderFeed((lastEventId, signal) => followJob(parts, jobId, decodePlace(lastEventId), signal))
}

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

async function* followJob(
  { jobs, waits }: JobFeedParts,
  jobId: string,
  place: Place,
  signal: AbortSignal,
): AsyncGenerator<FeedEvent> {
  for (let isEnding = false; ; ) {
    const job = await jobs.find(jobId)
    if (job === undefined)
      throw new SignalboxError('not_found', `There is no job "${jobId}" any more: it was deleted.`)
    const isOver = isFinal(job.state)
    if (!isOver) yield* newState(job, place)
    yield* newProgress(job, place)
    yield* newLogs(jobs, job, place)
    // The end of a job comes behind the log lines that were written before it.
    if (isOver) yield* newState(job, place)
    if (isOver && isEnding) return
    isEnding = isOver
    const sleepMs = isOver ? afterEndMs : job.state === 'running' ? runningMs : idleMs
    await waits.changed(jobId, job.state, sleepMs, signal)
  }
}

function eventAt(place: Place, type: string, data: unknown): FeedEvent {
  return { id: encodePlace(place), type, data }
}

function* newState(job: FoundJob, place: Place): Generator<FeedEvent> {
  if (place.state === job.state && place.attempt === job.attempt) return
  place.state = job.state
  place.attempt = job.attempt
  const { id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested } = job
  yield eventAt(place, 'state', {
    ...{ id, state, attempt, maxAttempts, runAt, startedAt, finishedAt, workerId, cancelRequested },
  })
}

function* newProgress({ progress }: FoundJob, place: Place): Generator<FeedEvent> {
  if (progress === null || progress.at <= place.progressAt) return
  place.progressAt = progress.at
  yield eventAt(place, 'progress', progress)
}

async function* newLogs(
  jobs: Pick<Jobs, 'logs'>,
  { id, attempt }: FoundJob,
  place: Place,
): AsyncGenerator<FeedEvent> {
  const { log } = place
  // After a retry attempts count from 1 again, and new lines stand before old ones.
  const isAnew = attempt < log.attempt
  let cursor: string | null = isAnew ? '0-0' : `${log.attempt}-${log.number}`
  while (cursor !== null) {
    const page: Awaited<ReturnType<Jobs['logs']>> = await jobs.logs(id, { limit: linesAtOnce, cursor })
    for (const line of page.items) {
      // It is of an attempt from before the retry, and was sent then.
      const isOld = line.attempt > log.attempt && line.at < log.at
      if (isOld || (isAnew && line.at <= log.at)) continue
      place.log = { attempt: line.attempt, number: line.number, at: line.at }
      yield eventAt(place, 'log', line)
    }
    cursor = page.cursor
  }
}

/**
 * Which jobs of a queue ended, for readers that may have been away. An event's id is a place in the time
 * of the store; a reader that comes with one goes on from the rows.
 *
 *     ──────── overlap ────────┐
 *     …  a   b   (c commits late)   d │ now        each look reads the overlap again and leaves out what was sent
 *
 * A transaction commits after the instant that it wrote, so a row may appear behind others that were sent before. So looks go
 * back a second, and every tenth goes back ten. What commits later than that after its end is missed. The place moves on with
 * the clock, so that a look at a quiet queue does not read all that ended in the others.
 *
 * Readers that look at the same time share one statement.
 */
export class QueueEnds {
  readonly #looks: Batcher<string, readonly JobEnd[]>
  /** The store's clock. */
  readonly now: () => Promise<number>

  constructor(jobs: Pick<JobStore, 'ends'>, now: () => Promise<number>) {
    this.now = now
    this.#looks = new Batcher({
      run: (asked) => Promise.all(asked.map((text) => jobs.ends(JSON.parse(text)))),
      start: (begin) => void setTimeout(begin, gatherMs),
      mergesEqual: true,
      maxInFlight: 4,
    })
  }

  /** A page of ends, and whether there may be more. */
  async page(queue: string, from: number, after: string | undefined): Promise<readonly JobEnd[]> {
    return this.#looks.add(JSON.stringify({ queue, from, after, limit: pageSize }))
  }
}

const gatherMs = 20
const pageSize = 200
const lookMs = 1_000
const shortOverlapMs = 1_000
export const overlapMs = 10_000
const longLookEvery = 10
/** Equal looks are shared, so they begin at whole seconds. */
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
  /** What was sent, by job: when it ended. */
  const sent = new Map<string, number>()
  let now = await ends.now()
  /** Up to here everything was read, but for what commits late. */
  let place = resumesAt ?? now
  // A new reader gets nothing of what ended before it came.
  const beginsAt = resumesAt === undefined ? now : resumesAt - overlapMs
  const placeEvent = (type: 'open' | 'place') => ({ id: String(place), type, data: { at: place } })

  async function* look(from: number): AsyncGenerator<FeedEvent> {
    let after: string | undefined
    for (let at = from; ; ) {
      const page = await ends.page(queue, at, after)
      for (const end of page) {
        if (sent.get(end.id) === end.finishedAt) continue
        sent.set(end.id, end.finishedAt)
        place = Math.max(place, end.finishedAt)
        yield { id: String(place), type: end.state, data: end }
      }
      const last = page.at(-1)
      if (last === undefined || page.length < pageSize) return
      at = last.finishedAt
      after = last.id
    }
  }

  yield placeEvent('open')
  for (let looks = 0; ; looks++) {
    const isLong = looks % longLookEvery === 0
    if (isLong) now = await ends.now()
    const from = Math.floor((place - (isLong ? overlapMs : shortOverlapMs)) / stepMs) * stepMs
    yield* look(Math.max(from, beginsAt))
    place = Math.max(place, now)
    // So that a reader of a quiet queue does not come back to a place long ago.
    if (isLong && looks > 0) yield placeEvent('place')
    for (const [id, finishedAt] of sent) if (finishedAt < place - overlapMs - 2 * stepMs) sent.delete(id)
    await createNotifier().wait({ timeoutMs: lookMs, signal })
  }
}
