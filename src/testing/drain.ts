import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import { duration, flag, onlyKeys, text, whole } from '../core/options.ts'
import type { DrivenEnd, DrivenJobs, DrivenRun, Job, Jobs, ListOptions } from '../jobs/index.ts'
import type { TestClock } from './test-clock.ts'

/** What to run. */
export interface DrainOptions {
  /** Only this queue. @default all that workers look in */
  readonly queue?: string | undefined
  /** Stop after so many runs. @default 1_000, and then it is an error: something adds itself for ever */
  readonly limit?: number | undefined
  /** Move the clock on to what falls due next, retries included, until nothing waits for its time. @default false */
  readonly withScheduled?: boolean | undefined
  /** How long one handler may take, in real time. @default 30_000 */
  readonly timeoutMs?: Duration | undefined
}

/** How runs ended, and why failed runs failed. Runs that were put off are not counted. */
export interface Drained {
  readonly completed: number
  /** Runs that failed and did not kill their job: it will be tried again, or was cancelled. */
  readonly failed: number
  readonly dead: number
  /** Why runs failed, those of dead jobs included, in the order in which they ended. */
  readonly errors: readonly DrainedError[]
}

/** One run that failed. */
export interface DrainedError {
  readonly id: string
  readonly kind: string
  /** Which attempt of the job it was: 1 is the first. */
  readonly attempt: number
  /** What the job is now: `scheduled` for another attempt, `dead`, `cancelled`, or `lost` to another worker. */
  readonly state: 'scheduled' | 'dead' | 'cancelled' | 'lost'
  /** What the handler threw, itself; of a `nack`, an Error with what it said. */
  readonly error: unknown
}

export interface DrainParts {
  readonly driven: DrivenJobs
  readonly clock: TestClock
}

export const runTimeoutMs = 30_000
const maxRuns = 1_000

/** Runs what is due, one job after the other, until nothing is; also what was added meanwhile. */
export async function drain(parts: DrainParts, options: DrainOptions = {}): Promise<Drained> {
  onlyKeys('drain', options, ['queue', 'limit', 'withScheduled', 'timeoutMs'])
  const queue = options.queue === undefined ? undefined : text('drain.queue', options.queue)
  const limit = options.limit === undefined ? undefined : whole('drain.limit', options.limit, { min: 1 })
  const withScheduled = flag('drain.withScheduled', options.withScheduled ?? false)
  const timeoutMs = duration('drain.timeoutMs', options.timeoutMs ?? runTimeoutMs, {
    min: 1,
    max: 2 ** 31 - 1,
  })
  const counts = { completed: 0, failed: 0, dead: 0 }
  const errors: DrainedError[] = []
  for (let runs = 0; limit === undefined || runs < limit; runs++) {
    const run = await next(parts, queue, withScheduled)
    if (run === undefined) break
    const { state, error } = await endOf(run, timeoutMs)
    if (limit === undefined && runs === maxRuns) throw endless(run)
    // Put off, or handed back: it has not failed.
    if (state === 'ready' || (state === 'scheduled' && (error ?? null) === null)) continue
    counts[state === 'completed' || state === 'dead' ? state : 'failed']++
    const { id, kind, attempt } = run.job
    if (state !== 'completed') errors.push({ id, kind, attempt, state, error: thrownBy(error) })
  }
  return { ...counts, errors }
}

async function next(
  { driven, clock }: DrainParts,
  queue: string | undefined,
  withScheduled: boolean,
): Promise<DrivenRun | undefined> {
  for (;;) {
    const run = await driven.beginNext({ queue })
    if (run !== undefined || !withScheduled) return run
    const dueAt = await nextDue(driven, queue, clock.now())
    if (dueAt === undefined) return undefined
    // From now on it is due, so this comes to an end; but its queue may be paused, and then another one is next.
    clock.advance(Math.max(0, dueAt - clock.now()))
  }
}

/** When the first of those falls due that a worker could do. */
async function nextDue(
  { jobs, handled }: DrivenJobs,
  only: string | undefined,
  now: number,
): Promise<number | undefined> {
  let first: number | undefined
  const look = ({ queue, kind, runAt }: Job): void => {
    const isHandled = handled.some(({ queues, kinds }) => queues.includes(queue) && kinds.includes(kind))
    if (isHandled && (first === undefined || runAt < first)) first = runAt
  }
  const of = only === undefined ? {} : { queue: only }
  for (const job of await listAll(jobs, { ...of, state: 'scheduled' })) look(job)
  // One that is due already waits for something else than its time.
  for (const job of await listAll(jobs, { ...of, state: 'waiting' })) if (job.runAt > now) look(job)
  return first
}

/** How a run ended, waited for no longer than `timeoutMs` of real time. */
export async function endOf({ job, ended }: DrivenRun, timeoutMs: number): Promise<DrivenEnd> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(stuck(job, timeoutMs)), timeoutMs)
  })
  try {
    return await Promise.race([ended, late])
  } finally {
    clearTimeout(timer)
  }
}

function stuck({ id, kind }: DrivenRun['job'], timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'timeout',
    `The handler of job "${id}" (${kind}) has not ended within ${timeoutMs} ms of real time. Does it wait for something that never comes?`,
    { details: { jobId: id, kind, timeoutMs } },
  )
}

function endless({ job }: DrivenRun): SignalboxError {
  return new SignalboxError(
    'too_many',
    `After ${maxRuns} runs there is still something due, now a job of kind "${job.kind}". Does a job add itself for ever? If not, say how many with limit.`,
    { details: { kind: job.kind, runCount: maxRuns } },
  )
}

/**
 * The error of a run, for tests to throw and compare. What a handler threw is the same value. Of a `nack` only the
 * description is left; it becomes an Error with the same name, message, code and details.
 */
export function thrownBy(error: unknown): unknown {
  if (error instanceof Error || typeof error !== 'object' || error === null) return error
  const { message } = error as { message?: unknown }
  return typeof message === 'string' ? Object.assign(new Error(message), error) : error
}

/** All the jobs that there are, or all of those that are meant; newest first. */
export async function listAll(
  jobs: Pick<Jobs, 'list'>,
  filter: Pick<ListOptions, 'queue' | 'state'> = {},
): Promise<readonly Job[]> {
  const all: Job[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<Jobs['list']>> = await jobs.list({ ...filter, limit: 500, cursor })
    all.push(...page.items)
    cursor = page.cursor
  } while (cursor !== null)
  return all
}
