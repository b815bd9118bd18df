import { type Contention, noContention } from '../contention/index.ts'
import { createBell } from '../core/bell.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'
import type { EventSource } from '../core/events.ts'
import { encodeError } from '../core/failure.ts'
import { encodeJson } from '../core/json.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { onlyKeys, whole } from '../core/options.ts'
import { createAlarm } from './alarm.ts'
import { Attempt, type AttemptHost } from './attempt.ts'
import { decodeError } from './decode.ts'
import { createTransactionGroups, type TransactionGroups } from './groups.ts'
import type { Taker } from './handover.ts'
import { Intake } from './intake.ts'
import { createKeeper, type Keeper } from './keeper.ts'
import type { Outcome } from './lifecycle.ts'
import { cancelTopic, type JobsParts, queueTopic } from './parts.ts'
import { ackMissing, leaseLost, rolledBack, timedOut } from './refusals.ts'
import { createSettler, type Settler } from './settler.ts'
import type { ClaimedRecord, ClaimRequest, JobStore, NewJob, Verdict } from './store.ts'
import { Tally } from './tally.ts'
import type { WorkerCounts, WorkerEvents } from './workerevents.ts'
import { type ResolvedWorkerOptions, resolveWorkerOptions, type WorkerOptions } from './workeroptions.ts'

/**
 * A worker: claims jobs, runs their handlers, keeps their leases, writes how they ended.
 *
 *     intake ──claim──▶ buffer ──a slot is free──▶ handler ──outcome──▶ settler ──verdict──▶ store
 *       ▲                  └──────────── keeper renews all leases ─────────────┘
 *       └── bell, or poll                minder: wishes to cancel, leases that ran out here
 *
 * Three supervised loops; a step that hangs is replaced and `ready` is false meanwhile. Nothing a handler does ends
 * the worker. Everything written is conditional on the job's lease, so a worker that was paused, cut off or declared
 * dead can do no harm when it comes back: its writes are refused, and it learns that by `lost`.
 */
export interface Worker extends AsyncDisposable {
  readonly workerId: string
  readonly events: EventSource<WorkerEvents>
  /** It runs, and each of its loops made progress lately. */
  readonly ready: boolean
  /** Handlers running now, jobs held ready for them, and ends not written yet. */
  readonly load: { readonly running: number; readonly buffered: number; readonly settling: number }
  readonly counts: Readonly<WorkerCounts>
  /** Begins to claim. */
  start(): Promise<void>
  /**
   * Claims nothing more, hands back what has not begun, waits up to `graceMs` (10,000 unless told) for what has,
   * then aborts and hands back the rest. Handing back burns no attempt.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}

const minderMs = 500

export function createWorker(
  parts: JobsParts,
  options: WorkerOptions,
  onStopped: () => void = () => undefined,
): Worker & Taker {
  return new JobWorker(parts, resolveWorkerOptions(options, parts.reserved), onStopped)
}

class JobWorker implements Worker, Taker, AttemptHost {
  readonly store: JobStore
  readonly groups: TransactionGroups
  readonly leaseMs: number
  readonly #tally = new Tally()
  readonly #onStopped: () => void
  readonly #parts: JobsParts
  readonly #contention: Contention
  readonly #jobKind: number
  readonly #options: ResolvedWorkerOptions
  readonly #bell = createBell()
  readonly #cancelBell = createBell()
  readonly #alarm = createAlarm(() => this.#bell.ring())
  readonly #settler: Settler
  readonly #intake: Intake
  readonly #keeper: Keeper
  /** Everything whose lease is ours: buffered, running, or ended and not written yet. */
  readonly #held = new Set<Attempt>()
  readonly #running = new Set<Attempt>()
  #buffer: Attempt[] = []
  #next = 0
  #loops: readonly Loop[] = []
  #unlisten: (() => void)[] = []
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new'
  #stopped: Promise<void> | undefined
  #whenNoneRuns: (() => void) | undefined

  constructor(parts: JobsParts, options: ResolvedWorkerOptions, onStopped: () => void) {
    this.#onStopped = onStopped
    this.#parts = parts
    this.store = parts.store
    this.#options = options
    this.leaseMs = options.leaseMs
    this.groups = createTransactionGroups(parts.store)
    const { store, contention = noContention } = parts
    this.#contention = contention
    // What is claimed ahead waits for a place as a matter of course.
    this.#jobKind = contention.kind('worker.job', {
      lane: 'worker',
      size: options.concurrency,
      warnMs: 1_000,
    })
    const claimKind = contention.kind('worker.claim', { warnMs: 1_000 })
    const settleKind = contention.kind('worker.settle', { warnMs: 1_000 })
    const settling: Pick<JobStore, 'settle' | 'outcomes'> = {
      settle: (verdicts) => contention.during(settleKind, () => store.settle(verdicts)),
      outcomes: (leases) => store.outcomes(leases),
    }
    this.#settler = createSettler(settling, {
      onTrouble: (error) => this.#tally.warn('Ends of jobs could not be written yet.', error),
      // What was not written yet may have been the reason to claim no more.
      onWritten: () => this.#intake.askForMore(),
    })
    this.#intake = new Intake({
      store: { claim: (request) => contention.during(claimKind, () => store.claim(request)) },
      options,
      bell: this.#bell,
      load: () => ({
        isOpen: this.#state === 'running',
        running: this.#running.size,
        buffered: this.#buffer.length - this.#next,
        settling: this.#settler.size,
      }),
      receive: (records, sentAt) => this.#receive(records, sentAt),
    })
    this.#keeper = createKeeper({
      store: parts.store,
      leaseMs: options.leaseMs,
      held: this.#held,
      running: this.#running,
      lose: (attempt) => this.#lose(attempt),
    })
  }

  get workerId(): string {
    return this.#options.workerId
  }

  get events(): EventSource<WorkerEvents> {
    return this.#tally.events
  }

  get counts(): Readonly<WorkerCounts> {
    return this.#tally.counts
  }

  get ready(): boolean {
    return this.#state === 'running' && this.#loops.every((loop) => loop.healthy)
  }

  get load(): { running: number; buffered: number; settling: number } {
    return {
      running: this.#running.size,
      buffered: this.#buffer.length - this.#next,
      settling: this.#settler.size,
    }
  }

  async start(): Promise<void> {
    if (this.#state === 'running') return
    if (this.#state !== 'new') throw new SignalboxError('closed', 'This worker was stopped; make a new one.')
    const { queues, pollMs, leaseMs, watchdogMs } = this.#options
    this.#unlisten = [
      this.#parts.bell.listen(queues.map(queueTopic), () => this.#bell.ring()),
      this.#parts.bell.listen([cancelTopic], () => this.#cancelBell.ring()),
    ]
    // Only now: a closed store refuses to be listened to, and then nothing has begun.
    this.#state = 'running'
    const backoff = { baseMs: 100, maxMs: 5_000 }
    // A renewal must have two chances within a lease, also when the first one hangs or fails.
    const renewMs = Math.ceil(leaseMs / 3)
    this.#loops = [
      createLoop({
        name: 'jobs.intake',
        step: () => this.#intake.step(),
        // Each worker at a pace of its own, so that a fleet that was started at once does not look at once.
        idleMs: Math.round(pollMs * (1 + Math.random() * 0.1)),
        bell: this.#bell,
        watchdogMs,
        backoff,
      }),
      createLoop({
        name: 'jobs.keeper',
        step: () => this.#keeper.renew(),
        idleMs: renewMs,
        watchdogMs: Math.min(watchdogMs, Math.max(100, renewMs)),
        backoff: { ...backoff, maxMs: Math.min(backoff.maxMs, renewMs) },
      }),
      createLoop({
        name: 'jobs.minder',
        step: () => this.#keeper.mind(),
        idleMs: Math.min(minderMs, Math.ceil(leaseMs / 4)),
        bell: this.#cancelBell,
        watchdogMs,
        backoff,
      }),
    ]
    for (const loop of this.#loops) {
      loop.events.on('failed', ({ error }) => this.#tally.warn(`A step of ${loop.name} failed.`, error))
      loop.events.on('stalled', () => this.#tally.warn(`${loop.name} made no progress and was replaced.`))
    }
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

  settle(attempt: Attempt, verdict: Verdict): Promise<boolean> {
    return new Promise((resolve) => {
      this.#settler.settle(attempt, verdict, (took) => {
        this.#settled(attempt, verdict, took, decodeError(verdict.error))
        resolve(took)
      })
    })
  }

  noted(attempt: Attempt, verdict: Verdict, took: boolean): void {
    this.#settled(attempt, verdict, took, undefined)
  }

  offer(job: NewJob): ClaimRequest | undefined {
    return this.#intake.offer(job)
  }

  take(record: ClaimedRecord | undefined, sentAt: number): void {
    this.#intake.handedOver()
    if (record !== undefined) this.#receive([record], sentAt)
  }

  #receive(records: readonly ClaimedRecord[], sentAt: number): void {
    this.#tally.counts.claimed += records.length
    for (const record of records) {
      const handler = this.#options.handlers.get(record.kind)!
      const attempt = new Attempt(this, record, handler, sentAt + this.#options.leaseMs)
      attempt.ticket = this.#contention.begin(this.#jobKind, record.kind)
      this.#held.add(attempt)
      this.#buffer.push(attempt)
    }
    // What came while the worker was stopping, or to a step that had been given up, is not lost.
    if (this.#state !== 'running') this.#handBackBuffer()
    // With more to come the next claim is sent first, and these are run while the store is at it.
    if (this.#intake.wantsMore) setImmediate(() => this.#pump())
    else this.#pump()
  }

  /** Starts handlers while there are slots and jobs. */
  #pump(): void {
    const { concurrency } = this.#options
    while (this.#running.size < concurrency && this.#next < this.#buffer.length) {
      const attempt = this.#buffer[this.#next++]!
      // It may have been lost or handed back while it waited.
      if (!attempt.isEnded) this.#begin(attempt)
    }
    if (this.#next === this.#buffer.length && this.#next > 0) {
      this.#buffer = []
      this.#next = 0
    }
    this.#intake.askForMore()
  }

  #begin(attempt: Attempt): void {
    this.#running.add(attempt)
    this.#contention.enter(attempt.ticket)
    const { timeoutMs } = attempt.record
    if (timeoutMs !== null) attempt.timer = setTimeout(() => this.#timeOut(attempt, timeoutMs), timeoutMs)
    try {
      const returned: unknown = attempt.run()
      // By way of Promise: a foreign thenable may throw when it is looked at, throw when it is called, or call back
      // twice, and none of that may reach the pump. What is no object needs no promise.
      if (typeof returned === 'object' && returned !== null) {
        Promise.resolve(returned).then(
          (value) => this.#returned(attempt, value),
          (error: unknown) => this.#threw(attempt, error),
        )
      } else queueMicrotask(() => this.#returned(attempt, returned))
    } catch (error) {
      // Not here: a handler that throws at once must not grow the stack of a handler that ended.
      queueMicrotask(() => this.#threw(attempt, error))
    }
  }

  #returned(attempt: Attempt, value: unknown): void {
    // Somebody forgot an `await`: acking now would pull the job from under the transaction, and its rows would be lost.
    if (attempt.openTransaction && !attempt.isEnded) {
      attempt.openTransaction.then(
        () => this.#returned(attempt, value),
        (error: unknown) => this.#threw(attempt, error),
      )
      return
    }
    this.#leave(attempt)
    if (attempt.isEnded) this.#held.delete(attempt)
    else if (attempt.pledged) this.#confirm(attempt, rolledBack(attempt.jobId), false)
    else if (attempt.handler.finish === 'transaction') {
      this.#tally.counts.ackMissing++
      const error = ackMissing(attempt.jobId)
      this.#tally.warn(error.message)
      this.#finish(attempt, { kind: 'threw', error: encodeError(error) }, error)
    } else this.#finish(attempt, { kind: 'returned', result: this.#encodeResult(attempt, value) })
    this.#pump()
  }

  #threw(attempt: Attempt, error: unknown): void {
    this.#leave(attempt)
    if (attempt.isEnded) {
      this.#held.delete(attempt)
      if (!isSignalboxError(error, 'lease_lost')) this.#tally.late(attempt.record, error)
    } else if (attempt.pledged) this.#confirm(attempt, error, true)
    else if (isSignalboxError(error, 'undecodable')) {
      this.#finish(attempt, { kind: 'threw', error: encodeError(error), dead: true }, error)
    } else this.#finish(attempt, attempt.outcomeOf(error), error)
    this.#pump()
  }

  /** The attempt is over and nobody has written so yet. */
  #finish(attempt: Attempt, outcome: Outcome, error?: unknown): void {
    if (!attempt.end()) return
    const verdict = attempt.judge(outcome)
    this.#settler.settle(attempt, verdict, (took) => this.#settled(attempt, verdict, took, error))
  }

  /** Ended in a transaction of the user's: theirs stands if they committed, else `error` decides. */
  #confirm(attempt: Attempt, error: unknown, hasThrown: boolean): void {
    if (!attempt.end()) return
    const verdict = attempt.judge(attempt.outcomeOf(error))
    this.#settler.confirm(attempt, verdict, (committed, took) => {
      if (!committed) return this.#settled(attempt, verdict, took, error)
      this.#stands(attempt)
      if (hasThrown) this.#tally.late(attempt.record, error)
    })
  }

  /** What the user wrote and committed; its error is the one they kept, whatever was thrown afterwards. */
  #stands(attempt: Attempt): void {
    const verdict = attempt.pledged!
    this.#settled(attempt, verdict, true, decodeError(verdict.error))
  }

  #settled(attempt: Attempt, verdict: Verdict, took: boolean, error: unknown): void {
    this.#held.delete(attempt)
    this.#contention.leave(attempt.ticket)
    this.#tally.settled(attempt.record, verdict, took, error)
    if (verdict.state === 'ready') this.#bell.ring()
    // A retry may fall due before the next poll.
    if (verdict.state === 'scheduled' && verdict.delayMs < this.#options.pollMs)
      this.#alarm.set(verdict.delayMs)
  }

  #leave(attempt: Attempt): void {
    this.#contention.leave(attempt.ticket)
    if (!this.#running.delete(attempt)) return
    this.#intake.ended()
    if (attempt.timer !== undefined) clearTimeout(attempt.timer)
    if (this.#running.size === 0) this.#whenNoneRuns?.()
  }

  #timeOut(attempt: Attempt, timeoutMs: number): void {
    const error = timedOut(attempt.jobId, timeoutMs)
    attempt.abort(error)
    this.#leave(attempt)
    if (attempt.pledged) this.#confirm(attempt, error, true)
    else this.#finish(attempt, { kind: 'threw', error: encodeError(error) }, error)
    this.#pump()
  }

  #lose(attempt: Attempt): void {
    if (!attempt.end()) return
    attempt.abort(leaseLost(attempt.jobId))
    this.#held.delete(attempt)
    this.#leave(attempt)
    this.#tally.lost(attempt.record)
    this.#pump()
  }

  async #stop(graceMs: number): Promise<void> {
    const wasRunning = this.#state === 'running'
    this.#state = 'stopping'
    if (wasRunning) {
      const deadline = performance.now() + graceMs
      for (const unlisten of this.#unlisten) unlisten()
      this.#alarm.clear()
      this.#handBackBuffer()
      const [intake, ...others] = this.#loops
      // Not cut short: what a claim under way brings must be handed back, or it lies until its lease ends.
      await intake!.stop({ graceMs: 5_000 })
      await this.#noneRuns(deadline - performance.now())
      this.#abandonRunning()
      await Promise.race([this.#settler.idle(), timer(5_000)])
      await Promise.all(others.map((loop) => loop.stop({ graceMs: 1_000 })))
    }
    this.#state = 'stopped'
    this.#onStopped()
  }

  #handBackBuffer(): void {
    for (const attempt of this.#buffer.splice(this.#next)) this.#handBack(attempt)
    this.#buffer = []
    this.#next = 0
  }

  #abandonRunning(): void {
    for (const attempt of [...this.#running]) {
      attempt.abort(new DOMException('The worker stops.', 'AbortError'))
      this.#handBack(attempt)
      this.#leave(attempt)
    }
  }

  #handBack(attempt: Attempt): void {
    if (!attempt.end()) return
    const verdict = attempt.judge({ kind: 'interrupted', delayMs: 0 })
    const settled = (took: boolean) => this.#settled(attempt, verdict, took, undefined)
    if (attempt.pledged) {
      this.#settler.confirm(attempt, verdict, (committed, took) => {
        if (committed) this.#stands(attempt)
        else settled(took)
      })
    } else this.#settler.settle(attempt, verdict, settled)
  }

  async #noneRuns(timeoutMs: number): Promise<void> {
    if (this.#running.size === 0 || timeoutMs <= 0) return
    const none = new Promise<void>((resolve) => {
      this.#whenNoneRuns = resolve
    })
    await Promise.race([none, timer(timeoutMs)])
    this.#whenNoneRuns = undefined
  }

  /** What a plain handler returned, if it can be kept. The work is done, so a result that cannot is no failure. */
  #encodeResult(attempt: Attempt, value: unknown): string | null {
    if (value === undefined) return null
    try {
      return encodeJson('the result', value)
    } catch (error) {
      this.#tally.warn(
        `The result of job "${attempt.jobId}" (${attempt.record.kind}) cannot be kept and was dropped.`,
        error,
      )
      return null
    }
  }
}

function timer(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)).unref())
}
