import { noContention } from '../../contention/index.ts'
import { SignalboxError } from '../../core/errors.ts'
import type { EventSource } from '../../core/events.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createAlarm, createNotifier } from '../../core/notifier.ts'
import { onlyKeys, whole } from '../../core/options.ts'
import type { MemberHandle, WantedMode, WorkerMode } from '../../fleet/workers/index.ts'
import type { Taker } from '../api/job-adder.ts'
import { cancelTopic, type JobsParts, queueTopic } from '../api/jobs-api.ts'
import type { ClaimedRecord, ClaimRequest, NewJob, Verdict } from '../job-store.ts'
import { Executor } from './executor.ts'
import { Fetcher } from './fetcher.ts'
import { createLeaseRenewer, type LeaseRenewer } from './lease-renewer.ts'
import { factsOf, showRunning, type WorkerMembership } from './worker-member.ts'
import { type ResolvedWorkerOptions, resolveWorkerOptions, type WorkerOptions } from './worker-options.ts'
import { TalliedWorker, type WorkerCounts, type WorkerEvents } from './worker-tally.ts'

/**
 * A worker: claims jobs, runs their handlers, keeps their leases, writes how they ended.
 *
 *     fetcher ──claim──▶ buffer ──a slot is free──▶ handler ──outcome──▶ completer ──verdict──▶ store
 *       ▲                  └───────── lease renewer renews all leases ─────────┘
 *       └── wake-up, or poll         expiry checker: cancellation requests, leases that ended here
 *
 * Three supervised loops; a step that hangs is replaced and `ready` is false meanwhile. Nothing a handler does ends
 * the worker. Everything written is conditional on the job's lease, so a worker that was paused, cut off or declared
 * dead can do no harm when it comes back: its writes are refused, and it learns that by `lost`.
 */
export interface Worker extends AsyncDisposable, EventSource<WorkerEvents> {
  readonly workerId: string
  /** It runs, and each of its loops made progress lately. */
  readonly ready: boolean
  /** Handlers running now, jobs held ready for them, and ends not written yet. */
  readonly load: { readonly running: number; readonly buffered: number; readonly settling: number }
  /** What it does; `quiet`: an operator asked it to finish what it has and claim nothing. */
  readonly mode: 'new' | WorkerMode | 'stopped'
  readonly counts: Readonly<WorkerCounts>
  /** Begins to claim. */
  start(): Promise<void>
  /**
   * Claims nothing more, hands back what has not begun, waits up to `graceMs` (10,000 unless told) for what has,
   * then aborts and hands back the rest. Handing back burns no attempt.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}

const expiryCheckMs = 500

export function createWorker(
  parts: JobsParts,
  options: WorkerOptions,
  hooks: WorkerHooks = {},
): Worker & Taker {
  const resolved = resolveWorkerOptions(options, parts.reserved)
  const release = resolved.release ?? parts.release ?? null
  return new JobWorker(parts, { ...resolved, release }, hooks)
}

export interface WorkerHooks {
  readonly onStopped?: () => void
  /** Lists the worker. @default it is not listed */
  readonly membership?: WorkerMembership | undefined
}

class JobWorker extends TalliedWorker implements Worker, Taker {
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
  /** Batches that wait for more. */
  readonly #resting = new Set<() => void>()
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
      watch: {
        left: () => this.#fetcher.ended(),
        room: () => this.#fetcher.askForMore(),
        settled: ({ record }, verdict) => this.#comesBack(record, verdict),
      },
      gathering: {
        claim: (kind, limit) => claim({ queues, kinds: [kind], workerId, limit, leaseMs }),
        rest: (ms) => this.#restForMore(ms),
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

  /** Whether it may begin anything. */
  get #isOpen(): boolean {
    return this.#state === 'running' && !this.#isQuiet
  }

  async start(): Promise<void> {
    if (this.#state === 'running') return
    if (this.#state !== 'new') throw new SignalboxError('closed', 'This worker was stopped; make a new one.')
    const { queues, pollMs, leaseMs, watchdogMs } = this.#options
    this.#unlisten = [
      this.#parts.notifier.listen(queues.map(queueTopic), () => this.#news()),
      this.#parts.notifier.listen([cancelTopic], () => this.#cancelNotifier.wake()),
    ]
    // Only now: a closed store refuses to be listened to, and then nothing has begun.
    this.#state = 'running'
    const backoff = { baseMs: 100, maxMs: 5_000 }
    // A renewal must have two chances within a lease, also when the first one hangs or fails.
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
        name: 'jobs.expiryChecker',
        step: () => this.#leaseRenewer.checkExpired(),
        idleMs: Math.min(expiryCheckMs, Math.ceil(leaseMs / 4)),
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

  /** Does what an operator asked for. */
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
      for (const end of [...this.#resting]) end()
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
    // What came while the worker was stopping, or to a step that had been given up, is not lost.
    if (!this.#isOpen) this.#executor.handBackBuffer()
    // With more to come the next claim is sent first, and these are run while the store is at it.
    if (this.#fetcher.wantsMore) setImmediate(() => this.#executor.pump())
    else this.#executor.pump()
  }

  /** Wakes waiting loops: there may be a new job in its queues. */
  #news(): void {
    this.#notifier.wake()
    for (const end of [...this.#resting]) end()
  }

  /** Until there may be news, or it is time to look; a batch that is being filled up looks again then. */
  #restForMore(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        this.#resting.delete(end)
        resolve(this.#isOpen)
      }
      const timer = setTimeout(end, Math.min(ms, this.#options.pollMs))
      this.#resting.add(end)
    })
  }

  #comesBack({ queue }: ClaimedRecord, { state, delayMs }: Verdict): void {
    if (state === 'ready') this.#wakeForReady(queue)
    // A retry may fall due before the next poll.
    if (state === 'scheduled' && delayMs < this.#options.pollMs) this.#alarm.set(delayMs)
  }

  /** What it gives back when it stops or falls quiet is for others. */
  #wakeForReady(queue: string): void {
    if (this.#isOpen) {
      this.#notifier.wake()
      return
    }
    try {
      this.#parts.notifier.wake(queueTopic(queue))
    } catch {
      // The store was closed meanwhile; the next poll finds that.
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
      for (const end of [...this.#resting]) end()
      const [fetching, ...others] = this.#loops
      // Not cut short: what a claim under way brings must be handed back, or it lies until its lease ends.
      await fetching!.stop({ graceMs: 5_000 })
      await this.#executor.finish(deadline - performance.now())
      await Promise.all(others.map((loop) => loop.stop({ graceMs: 1_000 })))
    }
    await this.#member?.leave()
    this.#state = 'stopped'
    this.#hooks.onStopped?.()
    this.tally.stopped(this.#stopper)
  }
}
