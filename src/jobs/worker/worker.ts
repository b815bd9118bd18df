import { hostname } from 'node:os'
import { noContention } from '../../contention/index.ts'
import { SignalboxError } from '../../core/errors.ts'
import type { EventSource } from '../../core/events.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createAlarm, createNotifier } from '../../core/notifier.ts'
import { onlyKeys, whole } from '../../core/options.ts'
import { version } from '../../core/version.ts'
import {
  boundSchemas,
  type Member,
  type MemberHandle,
  type Membership,
  type WantedMode,
  type WorkerMode,
  type WorkerVia,
} from '../../fleet/workers/index.ts'
import type { HandoverTarget } from '../api/job-adder.ts'
import { cancelTopic, type JobsParts, queueTopic } from '../api/jobs-api.ts'
import type { ClaimedRecord, ClaimRequest, NewJob, Verdict } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import { Executor } from './executor.ts'
import { Fetcher } from './fetcher.ts'
import { createLeaseRenewer, type LeaseRenewer } from './lease-renewer.ts'
import { type ResolvedWorkerOptions, resolveWorkerOptions, type WorkerOptions } from './worker-options.ts'
import { TalliedWorker, type WorkerCounts, type WorkerEvents } from './worker-tally.ts'

/**
 * A worker claims jobs, runs their handlers, renews their leases and writes their verdicts.
 *
 *     fetcher ──claim──▶ buffer ──a slot is free──▶ handler ──outcome──▶ completer ──verdict──▶ store
 *       ▲                  └───────── lease renewer renews all leases ─────────┘
 *       └── wake-up, or poll         attempt checker: cancellation requests, leases that expired
 *
 * Fetcher, renewer and attempt checker are supervised loops. The supervisor replaces a step that hangs; `ready` is false
 * meanwhile. No handler can end the worker. Every write is conditional on the job's lease, so a worker that was paused
 * or cut off does no harm when it returns: the store refuses its writes, and the worker emits `lost`.
 */
export interface Worker extends AsyncDisposable, EventSource<WorkerEvents> {
  readonly workerId: string
  /** The worker runs, and each of its loops made progress lately. */
  readonly ready: boolean
  /**
   * `running`: used slots; a batch uses one, also while it is being filled. `buffered`: jobs that wait for a slot.
   * `settling`: verdicts that are not yet written.
   */
  readonly load: { readonly running: number; readonly buffered: number; readonly settling: number }
  /** `quiet`: an operator asked the worker to finish its running jobs and to claim no new ones. */
  readonly mode: 'new' | WorkerMode | 'stopped'
  readonly counts: Readonly<WorkerCounts>
  /** Begins to claim. */
  start(): Promise<void>
  /**
   * Stops claiming, hands back jobs that have not started, and waits up to `graceMs` (default 10,000) for running ones.
   * Then it aborts and hands back the rest. A hand-back costs no attempt.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}

const attemptCheckMs = 500

export function createWorker(
  parts: JobsParts,
  options: WorkerOptions,
  hooks: WorkerHooks = {},
): Worker & HandoverTarget {
  const resolved = resolveWorkerOptions(options, parts.reserved)
  const release = resolved.release ?? parts.release ?? null
  return new JobWorker(parts, { ...resolved, release }, hooks)
}

export interface WorkerHooks {
  /** The worker waits for this before it starts. */
  readonly beforeStart?: () => Promise<void>
  readonly onStarted?: () => void
  readonly onStopped?: () => void
  /** Lists the worker with the other workers. @default the worker is not listed */
  readonly membership?: WorkerMembership | undefined
}

class JobWorker extends TalliedWorker implements Worker, HandoverTarget {
  readonly #hooks: WorkerHooks
  readonly #parts: JobsParts
  readonly #options: ResolvedWorkerOptions
  readonly #notifier = createNotifier()
  readonly #cancelNotifier = createNotifier()
  readonly #alarm = createAlarm(() => this.#notifier.wake())
  readonly #executor: Executor
  readonly #fetcher: Fetcher
  readonly #leaseRenewer: LeaseRenewer
  #loops: readonly Loop[] = []
  #unlisten: (() => void)[] = []
  /** Each function ends one batch's wait for more jobs. */
  readonly #batchWaits = new Set<() => void>()
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #isQuiet = false
  #member: MemberHandle | undefined
  #stopper: 'program' | 'operator' = 'program'
  #stopped: Promise<void> | undefined

  constructor(parts: JobsParts, options: ResolvedWorkerOptions, hooks: WorkerHooks) {
    super()
    this.#hooks = hooks
    this.#parts = parts
    this.#options = options
    const { store, contention = noContention } = parts
    this.#executor = new Executor({
      parts,
      options,
      tally: this.tally,
      hooks: {
        slotFreed: () => this.#fetcher.handlerEnded(),
        capacityChanged: () => this.#fetcher.requestClaim(),
        settled: ({ record }, verdict) => this.#wakeForRunnableAgain(record, verdict),
      },
      gathering: {
        claim: (kind, limit) => claim({ queues, kinds: [kind], workerId, limit, leaseMs }),
        waitForJobs: (ms) => this.#waitForJobs(ms),
      },
    })
    const { queues, workerId, leaseMs } = options
    const claimKind = contention.kind('worker.claim', { warnMs: 1_000 })
    const claim = (request: ClaimRequest) => contention.during(claimKind, () => store.claim(request))
    this.#fetcher = new Fetcher({
      store: { claim },
      options,
      notifier: this.#notifier,
      load: () => ({ isOpen: this.#isOpen, ...this.#executor.load }),
      receive: (records, sentAt) => this.#receive(records, sentAt),
    })
    this.#leaseRenewer = createLeaseRenewer({
      store,
      leaseMs: options.leaseMs,
      held: this.#executor.held,
      running: this.#executor.running,
      lose: (attempt) => this.#executor.lose(attempt),
    })
  }

  get workerId(): string {
    return this.#options.workerId
  }

  get ready(): boolean {
    return this.#state === 'running' && this.#loops.every((loop) => loop.healthy)
  }

  get load(): { running: number; buffered: number; settling: number } {
    return this.#executor.load
  }

  get mode(): Worker['mode'] {
    return this.#isQuiet && this.#state === 'running' ? 'quiet' : this.#state
  }

  /** Whether the worker may claim jobs and start handlers. */
  get #isOpen(): boolean {
    return this.#state === 'running' && !this.#isQuiet
  }

  async start(): Promise<void> {
    if (this.#state === 'new') await this.#hooks.beforeStart?.()
    if (this.#state === 'running') return
    if (this.#state !== 'new') throw new SignalboxError('closed', 'This worker was stopped; make a new one.')
    const { queues, pollMs, leaseMs, watchdogMs } = this.#options
    this.#unlisten = [
      this.#parts.notifier.listen(queues.map(queueTopic), () => this.#wakeAll()),
      this.#parts.notifier.listen([cancelTopic], () => this.#cancelNotifier.wake()),
    ]
    // Set after `listen`, which throws on a closed store: then the worker has not started.
    this.#state = 'running'
    const backoff = { baseMs: 100, maxMs: 5_000 }
    // A third of the lease: if a renewal hangs or fails, a second one still fits within the lease.
    const renewMs = Math.ceil(leaseMs / 3)
    this.#loops = [
      createLoop({
        name: 'jobs.fetcher',
        step: () => this.#fetcher.step(),
        // Each worker polls at a slightly different pace, so that a fleet that started at once does not poll at once.
        idleMs: Math.round(pollMs * (1 + Math.random() * 0.1)),
        notifier: this.#notifier,
        watchdogMs,
        backoff,
      }),
      createLoop({
        name: 'jobs.leaseRenewer',
        step: () => this.#leaseRenewer.renew(),
        idleMs: renewMs,
        watchdogMs: Math.min(watchdogMs, Math.max(100, renewMs)),
        backoff: { ...backoff, maxMs: Math.min(backoff.maxMs, renewMs) },
      }),
      createLoop({
        name: 'jobs.attemptChecker',
        step: () => this.#leaseRenewer.checkHeldAttempts(),
        idleMs: Math.min(attemptCheckMs, Math.ceil(leaseMs / 4)),
        notifier: this.#cancelNotifier,
        watchdogMs,
        backoff,
      }),
    ]
    for (const loop of this.#loops) {
      loop.events.on('failed', ({ error }) => this.tally.warn(`A step of ${loop.name} failed.`, error))
      loop.events.on('stalled', () => this.tally.warn(`${loop.name} made no progress and was replaced.`))
    }
    this.#member = this.#join()
    this.#hooks.onStarted?.()
  }

  #join(): MemberHandle | undefined {
    const { membership } = this.#hooks
    return membership?.membership.join({
      facts: factsOf(this.#options, membership),
      look: () => ({
        mode: this.mode as WorkerMode,
        running: showRunning(this.#executor.running, this.#executor.clock.now()),
        runningCount: this.#executor.running.size,
      }),
      follow: (wanted, graceMs) => this.#follow(wanted, graceMs ?? undefined),
      failed: (error) => this.tally.warn('The row that lists this worker could not be written yet.', error),
    })
  }

  /** Applies the mode that an operator asked for. */
  #follow(wanted: WantedMode, graceMs: number | undefined): void {
    if (this.#state !== 'running') return
    if (wanted === 'stop') {
      this.#stopper = 'operator'
      void this.stop(graceMs === undefined ? {} : { graceMs })
      return
    }
    const isQuiet = wanted === 'quiet'
    if (isQuiet === this.#isQuiet) return
    this.#isQuiet = isQuiet
    this.#member?.changed()
    if (isQuiet) {
      this.#executor.handBackBuffer()
      for (const end of [...this.#batchWaits]) end()
      return
    }
    this.#executor.reopen()
    this.#notifier.wake()
  }

  stop(options: { readonly graceMs?: number } = {}): Promise<void> {
    onlyKeys('stop', options, ['graceMs'])
    const graceMs = whole('stop.graceMs', options.graceMs ?? 10_000)
    this.#stopped ??= this.#stop(graceMs)
    return this.#stopped
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  offer(job: NewJob): ClaimRequest | undefined {
    return this.#fetcher.offer(job)
  }

  take(record: ClaimedRecord | undefined, sentAt: number): void {
    this.#fetcher.handedOver()
    if (record !== undefined) this.#receive([record], sentAt)
  }

  #receive(records: readonly ClaimedRecord[], sentAt: number): void {
    this.#executor.receive(records, sentAt)
    // A claim may be answered after the worker stopped or went quiet. Its jobs go back to the queue.
    if (!this.#isOpen) this.#executor.handBackBuffer()
    // If more jobs are likely, the fetcher sends the next claim first, so that the store works while handlers run.
    if (this.#fetcher.wantsMore) setImmediate(() => this.#executor.pump())
    else this.#executor.pump()
  }

  /** The queues of this worker may have a new job: wakes the fetcher and the batches that wait for more jobs. */
  #wakeAll(): void {
    this.#notifier.wake()
    for (const end of [...this.#batchWaits]) end()
  }

  /** Waits for a wake-up, at most `ms` or one poll interval. A batch that is being filled claims again afterwards. */
  #waitForJobs(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        this.#batchWaits.delete(end)
        resolve(this.#isOpen)
      }
      const timer = setTimeout(end, Math.min(ms, this.#options.pollMs))
      this.#batchWaits.add(end)
    })
  }

  /** The job is ready again, or will be: its attempt was retried, snoozed or handed back. */
  #wakeForRunnableAgain({ queue }: ClaimedRecord, { state, delayMs }: Verdict): void {
    if (state === 'ready') this.#wakeForReady(queue)
    // A retry may fall due before the next poll.
    if (state === 'scheduled' && delayMs < this.#options.pollMs) this.#alarm.set(delayMs)
  }

  /** A job is ready again. Wakes this worker, or other workers if this one stops or is quiet. */
  #wakeForReady(queue: string): void {
    if (this.#isOpen) {
      this.#notifier.wake()
      return
    }
    try {
      this.#parts.notifier.wake(queueTopic(queue))
    } catch {
      // The store was closed meanwhile. Other workers find the job at their next poll.
    }
  }

  async #stop(graceMs: number): Promise<void> {
    const wasRunning = this.#state === 'running'
    this.#state = 'stopping'
    this.#member?.changed()
    if (wasRunning) {
      const deadline = performance.now() + graceMs
      for (const unlisten of this.#unlisten) unlisten()
      this.#alarm.clear()
      this.#fetcher.close()
      this.#executor.handBackBuffer()
      for (const end of [...this.#batchWaits]) end()
      const [fetching, ...others] = this.#loops
      // Wait for a claim in flight: its jobs must be handed back, or nobody runs them until their leases end.
      await fetching!.stop({ graceMs: 5_000 })
      await this.#executor.drain(deadline - performance.now())
      await Promise.all(others.map((loop) => loop.stop({ graceMs: 1_000 })))
    }
    await this.#member?.leave()
    this.#state = 'stopped'
    this.#hooks.onStopped?.()
    this.tally.stopped(this.#stopper)
  }
}

/** How a box lists its workers. */
export interface WorkerMembership {
  readonly membership: Membership
  readonly via: WorkerVia
}

/** The facts in a worker's row. They do not change while the worker runs. */
function factsOf(
  { workerId, queues, handlers, schemas, concurrency, release }: ResolvedWorkerOptions,
  { via }: WorkerMembership,
): Member['facts'] {
  return {
    ...{ workerId, via, queues, concurrency, release, version },
    host: [...hostname()].slice(0, 191).join('') || null,
    pid: process.pid,
    kinds: [...handlers.keys()].sort(),
    schemas: boundSchemas(readSchemas(schemas)),
  }
}

/** A schema is user code; a schema that throws is omitted. */
function* readSchemas(
  schemas: ResolvedWorkerOptions['schemas'],
): Generator<readonly [kind: string, schema: unknown]> {
  for (const [kind, read] of schemas) {
    let schema: unknown
    try {
      schema = read()
    } catch {
      continue
    }
    yield [kind, schema]
  }
}

/** The attempts are in the order of their start, so the list shows the longest runs. */
const maxShown = 20

function showRunning(running: Iterable<Attempt>, now: number): ReturnType<Member['look']>['running'] {
  const shown: { id: string; kind: string; ms: number }[] = []
  for (const { jobId, record, begunAt } of running) {
    shown.push({ id: jobId, kind: record.kind, ms: begunAt === 0 ? 0 : Math.round(now - begunAt) })
    if (shown.length === maxShown) break
  }
  return shown
}
