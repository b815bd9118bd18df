import { AsyncLocalStorage } from 'node:async_hooks'
import { within } from '../core/clock.ts'
import type { Duration } from '../core/duration.ts'
import { SignalboxError } from '../core/errors.ts'
import { duration, flag, onlyKeys, text, whole } from '../core/options.ts'
import type {
  Added,
  AddInTransaction,
  AddOptions,
  AnyDefinition,
  DrivenEnd,
  DrivenJobs,
  DrivenRun,
  Job,
  Jobs,
  ListOptions,
} from '../jobs/index.ts'
import type { TestClock } from './test-box.ts'

/** The options of `drain`. */
export interface DrainOptions {
  /** Only this queue. @default all queues of the workers */
  readonly queue?: string | undefined
  /** Stop after this number of runs. @default 1_000; reaching it is an error, because a job may add itself for ever */
  readonly limit?: number | undefined
  /** Moves the clock to the next due job, including retries, until no job waits for its time. @default false */
  readonly withScheduled?: boolean | undefined
  /** How long one handler may take, in real time. @default 30_000 */
  readonly timeoutMs?: Duration | undefined
}

/** How runs ended, and why failed runs failed. Runs that were put off are not counted. */
export interface Drained {
  readonly completed: number
  /** Runs that failed, but did not end their job as dead: the job is retried, or was cancelled. */
  readonly failed: number
  readonly dead: number
  /** The errors of failed runs, including those of dead jobs, in the order of their ends. */
  readonly errors: readonly DrainedError[]
}

/** One run that failed. */
export interface DrainedError {
  readonly id: string
  readonly kind: string
  /** The attempt of the job, from 1. */
  readonly attempt: number
  /**
   * The present state of the job: `scheduled` for another attempt, `dead`, `cancelled`, or `lost` to another worker.
   */
  readonly state: 'scheduled' | 'dead' | 'cancelled' | 'lost'
  /** The value that the handler threw. For a `nack`: an Error with its description. */
  readonly error: unknown
}

export interface DrainParts {
  readonly driven: DrivenJobs
  readonly clock: TestClock
}

export const runTimeoutMs = 30_000
const maxRuns = 1_000

/** Runs due jobs, one after the other, until none is due. This includes jobs that were added meanwhile. */
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
    // A snoozed or handed back job has not failed.
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
    // The job is due now, so this loop ends. If its queue is paused, another job is next.
    clock.advance(Math.max(0, dueAt - clock.now()))
  }
}

/** The earliest due time of the jobs that a worker handles. */
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
  // A waiting job that is already due waits for something else than its time.
  for (const job of await listAll(jobs, { ...of, state: 'waiting' })) if (job.runAt > now) look(job)
  return first
}

/** Waits for the end of a run, at most `timeoutMs` of real time. */
export function endOf({ job, ended }: DrivenRun, timeoutMs: number): Promise<DrivenEnd> {
  return within(timeoutMs, ended, () => {
    throw stuck(job, timeoutMs)
  })
}

function stuck({ id, kind }: DrivenRun['job'], timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'timeout',
    `The handler of job "${id}" (${kind}) has not ended within ${timeoutMs} ms of real time. Check what it waits for, or raise timeoutMs.`,
    { details: { jobId: id, kind, timeoutMs } },
  )
}

function endless({ job }: DrivenRun): SignalboxError {
  return new SignalboxError(
    'too_many',
    `After ${maxRuns} runs a job of kind "${job.kind}" is still due. A job may add itself for ever; if not, set limit.`,
    { details: { kind: job.kind, runCount: maxRuns } },
  )
}

/**
 * The error of a run, for tests to throw and compare. For a handler that threw, it is the same value. A `nack` has
 * only a description; it becomes an Error with the same name, message, code and details.
 */
export function thrownBy(error: unknown): unknown {
  if (error instanceof Error || typeof error !== 'object' || error === null) return error
  const { message } = error as { message?: unknown }
  return typeof message === 'string' ? Object.assign(new Error(message), error) : error
}

/** Lists all jobs that fit the filter, newest first. */
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

/** How deep jobs may run inside other jobs. A job that adds its own kind would otherwise never end. */
const maxDepth = 200
/** How many handlers the caller is inside. Jobs that are added together do not count. */
const depth = new AsyncLocalStorage<number>()

/**
 * Wraps jobs so that an `add` runs the added job before it returns, and throws what its handler threw. Jobs that are
 * not due, or have no handler here, stay queued. Earlier due jobs run first, as always.
 *
 * A job that is added with `tx` does not exist before the commit. If a handler adds it, it runs when that handler has
 * ended, and the `add` that ran the handler throws its error. If a test adds it, the next `add` or `drain` runs it.
 */
export function runInline(driven: DrivenJobs): Jobs {
  const { jobs } = driven
  /** Running jobs, and the ends of jobs for an `add` that did not run its job itself. */
  const begun = new Map<string, Promise<DrivenEnd>>()
  const ended = new Map<string, DrivenEnd>()
  /** Ids of jobs that were added with `tx` and not run yet. */
  const uncommitted: string[] = []

  async function runUntilEnded(id: string): Promise<DrivenEnd | undefined> {
    while (!ended.has(id)) {
      const running = begun.get(id)
      if (running !== undefined) await running
      else if (!(await runNext()) && !begun.has(id)) break
    }
    const end = ended.get(id)
    ended.delete(id)
    return end
  }

  async function runNext(): Promise<boolean> {
    const inside = depth.getStore() ?? 0
    if (inside >= maxDepth) throw tooDeep()
    const run = await depth.run(inside + 1, () => driven.beginNext())
    if (run === undefined) return false
    const { id } = run.job
    const end = endOf(run, runTimeoutMs)
    begun.set(id, end)
    try {
      ended.set(id, await end)
    } finally {
      begun.delete(id)
    }
    return true
  }

  async function runAll(added: readonly Added[]): Promise<void> {
    const failures: unknown[] = []
    const run = async (id: string): Promise<void> => {
      const end = await runUntilEnded(id)
      if (end?.error !== undefined && end.error !== null) failures.push(thrownBy(end.error))
    }
    for (const { id, duplicate } of added) {
      // A duplicate may be running, and may be waiting for this call.
      if (!duplicate) await run(id)
      // Inside a handler, its transaction may still be open.
      while (depth.getStore() === undefined && uncommitted.length > 0) await run(uncommitted.shift()!)
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Runs jobs later: a run now would wait for the caller's transaction, which waits for this call. */
  function runLater(added: readonly Added[]): void {
    for (const { id, duplicate } of added) if (!duplicate) uncommitted.push(id)
  }

  return {
    ...jobs,
    async add(
      kind: string | AnyDefinition,
      payload?: unknown,
      options?: AddOptions & AddInTransaction,
    ): Promise<Added> {
      const added = await jobs.add(kind as string, payload, options)
      if (options?.tx === undefined) await runAll([added])
      else runLater([added])
      return added
    },
    async addMany(list, options) {
      const added = await jobs.addMany(list, options)
      if (options?.tx === undefined) await runAll(added)
      else runLater(added)
      return added
    },
  }
}

function tooDeep(): SignalboxError {
  return new SignalboxError(
    'too_many',
    `${maxDepth} jobs run inside of each other, each added by the one before. A job may add its own kind for ever: test it in manual mode, with drain({ limit }).`,
    { details: { runCount: maxDepth } },
  )
}
