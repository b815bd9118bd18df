import { SignalboxError } from '../../core/errors.ts'
import { onlyKeys, whole } from '../../core/options.ts'
import { createJobDependencies } from '../dependencies/dependencies.ts'
import { resolveOnce } from '../dependencies/dependency-resolver.ts'
import type { ClaimedRecord, Verdict } from '../job-store.ts'
import { fireDue } from '../schedules/schedule-runner.ts'
import type { Attempt } from '../worker/attempt.ts'
import { Executor } from '../worker/executor.ts'
import type { Worker } from '../worker/worker.ts'
import { type ResolvedWorkerOptions, resolveWorkerOptions } from '../worker/worker-options.ts'
import { TalliedWorker } from '../worker/worker-tally.ts'
import { createJobs } from './create-jobs.ts'
import type { Jobs, JobsParts } from './jobs-api.ts'

/**
 * Jobs for tests: workers do nothing by themselves, without loops, polling or wake-ups. The test starts each job and
 * gets its end. Claiming, handlers, verdicts and the store are the real ones.
 */
export interface DrivenJobs {
  readonly jobs: Jobs
  /** The kinds and queues of each worker that was created with these jobs. */
  readonly handled: readonly { readonly queues: readonly string[]; readonly kinds: readonly string[] }[]
  /** Claims the next due job that one of the workers can do, and begins it; undefined when there is none. */
  beginNext(options?: { readonly queue?: string | undefined }): Promise<DrivenRun | undefined>
}

/** The run of one job. */
export interface DrivenRun {
  readonly job: ClaimedRecord
  /** Resolves when the handler has returned and the end is written. Never rejects. */
  readonly ended: Promise<DrivenEnd>
}

/** The end of a run. `error` is what the handler threw, or its stored form. */
export interface DrivenEnd {
  readonly job: ClaimedRecord
  readonly state: Verdict['state'] | 'lost'
  readonly error: unknown
}

/** Driven workers renew no lease, and a test may move the clock by years while a handler runs. */
const leaseMs = 1_000 * 31_557_600_000

/** How long a closing box waits for running handlers, in real time. */
const closingMs = 100

export function createDrivenJobs(given: JobsParts): DrivenJobs {
  const withoutLoops = { ...given, resolvesDependencies: false }
  const inner = createJobs(withoutLoops)
  const parts = { ...given, store: createJobDependencies(withoutLoops).store }
  const workers = new Set<DrivenWorker>()
  let isClosed = false

  async function beginOne(queue: string | undefined): Promise<DrivenRun | undefined> {
    for (const worker of workers) {
      const run = await worker.beginNext(queue)
      if (run !== undefined) return run
    }
    return undefined
  }

  /** Unblocks waiting jobs, and repeats while that unblocks others. */
  async function resolveOnceAll(): Promise<void> {
    const { dependencies, store, notifier } = parts
    if (dependencies === undefined) return
    for (let before = -1; ; ) {
      const seen = await resolveOnce({
        dependencies: dependencies.store,
        locks: dependencies.locks,
        store,
        notifier,
      })
      if (seen === 0) return
      const stats = await store.stats()
      // The counts of very many jobs are estimates, which may not change while some jobs are unblocked.
      const isExact = stats.every(({ approximate }) => !approximate)
      const waiting = isExact ? stats.reduce((sum, { waiting }) => sum + waiting, 0) : seen
      if (waiting === before || waiting === 0) return
      before = waiting
    }
  }

  return {
    jobs: {
      ...inner,
      worker(options) {
        if (isClosed) throw new SignalboxError('closed', 'This box was closed; open another.')
        const resolved = resolveWorkerOptions(options, parts.reserved)
        const worker = new DrivenWorker(parts, resolved, () => workers.delete(worker))
        workers.add(worker)
        return worker
      },
      async cancel(id) {
        const answer = await inner.cancel(id)
        // Driven workers do not poll for cancellation requests.
        if (answer.cancelRequested) for (const worker of workers) worker.cancel(id)
        return answer
      },
      async [Symbol.asyncDispose]() {
        isClosed = true
        // A test waits for the ends that it needs. A handler that still runs hangs.
        await Promise.all([...workers].map((worker) => worker.stop({ graceMs: closingMs })))
        await inner[Symbol.asyncDispose]()
      },
    },
    get handled() {
      return [...workers].map((worker) => worker.handled)
    },
    async beginNext({ queue } = {}) {
      const { schedules, notifier } = parts
      if (schedules !== undefined) await fireDue({ schedules, notifier })
      await resolveOnceAll()
      return beginOne(queue)
    },
  }
}

interface Pending {
  readonly resolve: (end: DrivenEnd) => void
  hasReturned: boolean
  end: DrivenEnd | undefined
}

class DrivenWorker extends TalliedWorker implements Worker {
  readonly handled: { readonly queues: readonly string[]; readonly kinds: readonly string[] }
  readonly #parts: JobsParts
  readonly #options: ResolvedWorkerOptions
  readonly #onStopped: () => void
  readonly #executor: Executor
  /** By claim: a job may run again before the test reads its first end. */
  readonly #pending = new Map<ClaimedRecord, Pending>()
  /** Runs of a batch that `beginNext` has not yet returned. */
  readonly #begunWith: DrivenRun[] = []
  #queues: readonly string[] = []
  #isStarted = false
  #stopped: Promise<void> | undefined

  constructor(parts: JobsParts, options: ResolvedWorkerOptions, onStopped: () => void) {
    super()
    this.#parts = parts
    this.#options = options
    this.#onStopped = onStopped
    this.handled = { queues: options.queues, kinds: [...options.handlers.keys()] }
    this.#executor = new Executor({
      parts,
      // Without a limit: jobs that run at the same time may wait for each other.
      options: { ...options, leaseMs, concurrency: Number.MAX_SAFE_INTEGER },
      tally: this.tally,
      hooks: {
        slotFreed: (attempt) => this.#slotFreed(attempt),
        capacityChanged: () => undefined,
        settled: (attempt, { state }, written, error) =>
          this.#settled(attempt, { job: attempt.record, state: written ? state : 'lost', error }),
      },
      // A batch has the jobs that are due now; it does not wait for more.
      gathering: { claim: (kind, limit) => this.#claimMore(kind, limit), waitForJobs: async () => false },
    })
  }

  get workerId(): string {
    return this.#options.workerId
  }

  get ready(): boolean {
    return this.#isStarted && this.#stopped === undefined
  }

  get load(): { running: number; buffered: number; settling: number } {
    return this.#executor.load
  }

  get mode(): Worker['mode'] {
    if (this.#stopped !== undefined) return 'stopped'
    return this.#isStarted ? 'running' : 'new'
  }

  async start(): Promise<void> {
    if (this.#stopped !== undefined)
      throw new SignalboxError('closed', 'This worker was stopped; make a new one.')
    this.#isStarted = true
  }

  stop(options: { readonly graceMs?: number } = {}): Promise<void> {
    onlyKeys('stop', options, ['graceMs'])
    const graceMs = whole('stop.graceMs', options.graceMs ?? 10_000)
    this.#onStopped()
    this.#stopped ??= this.#executor.drain(graceMs).then(() => this.tally.stopped('program'))
    return this.#stopped
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async beginNext(queue: string | undefined): Promise<DrivenRun | undefined> {
    const begun = this.#begunWith.shift()
    if (begun !== undefined) return begun
    const queues = this.handled.queues.filter((name) => queue === undefined || name === queue)
    if (queues.length === 0) return undefined
    this.#queues = queues
    const request = { queues, kinds: this.handled.kinds, workerId: this.workerId, limit: 1, leaseMs }
    const [job] = await this.#parts.store.claim(request)
    if (job === undefined) return undefined
    const run = this.#watched(job)
    this.#executor.receive([job], performance.now())
    if (this.#stopped === undefined) this.#executor.pump()
    else this.#executor.handBackBuffer()
    return run
  }

  /** More jobs for the batch. `beginNext` returns them one by one. */
  async #claimMore(kind: string, limit: number): Promise<readonly ClaimedRecord[]> {
    const request = { queues: this.#queues, kinds: [kind], workerId: this.workerId, limit, leaseMs }
    const jobs = await this.#parts.store.claim(request)
    for (const job of jobs) this.#begunWith.push(this.#watched(job))
    return jobs
  }

  #watched(job: ClaimedRecord): DrivenRun {
    const { promise: ended, resolve } = Promise.withResolvers<DrivenEnd>()
    this.#pending.set(job, { resolve, hasReturned: false, end: undefined })
    return { job, ended }
  }

  cancel(id: string): void {
    for (const attempt of this.#executor.running) if (attempt.jobId === id) attempt.cancel()
  }

  #slotFreed({ record }: Attempt): void {
    const pending = this.#pending.get(record)
    if (pending === undefined) return
    pending.hasReturned = true
    this.#resolve(record, pending)
  }

  #settled(attempt: Attempt, end: DrivenEnd): void {
    const pending = this.#pending.get(attempt.record)
    if (pending === undefined) return
    pending.end = end
    // A job that was handed back before its start never had a slot.
    if (!this.#executor.running.has(attempt)) pending.hasReturned = true
    this.#resolve(attempt.record, pending)
  }

  /** Resolves after both: a handler may end its job and continue, or return before the end is written. */
  #resolve(job: ClaimedRecord, { hasReturned, end, resolve }: Pending): void {
    if (!hasReturned || end === undefined) return
    this.#pending.delete(job)
    resolve(end)
  }
}
