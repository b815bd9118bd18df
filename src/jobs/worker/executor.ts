import { type Contention, noContention } from '../../contention/index.ts'
import { type Clock, systemClock } from '../../core/clock.ts'
import { encodeError } from '../../core/describe-error.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import type { JobsParts } from '../api/jobs-api.ts'
import { decodeError } from '../decode-job.ts'
import { isSealed, sealedDelayMs } from '../encryption/sealed-text.ts'
import { ackMissing, isFinal, leaseLost, rolledBack, timedOut } from '../job-errors.ts'
import type { ClaimedRecord, JobStore, Verdict } from '../job-store.ts'
import type { Outcome } from '../lifecycle.ts'
import { createLogWriter, type LogWriter } from '../logs/log-writer.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'
import { type JobsTelemetry, outcomeOf } from '../telemetry/telemetry.ts'
import { Attempt, type AttemptHost } from './attempt.ts'
import { Batches } from './batch-collector.ts'
import { Completer } from './completer.ts'
import type { GatherParts } from './handler-batch.ts'
import { createTransactionGroups, type TransactionGroups } from './transaction-groups.ts'
import type { BatchHandler, ResolvedWorkerOptions } from './worker-options.ts'
import type { Tally } from './worker-tally.ts'

/** Events of an executor, for the worker that brings it jobs. */
export interface RunnerWatch {
  /** A handler has its place no more: it ended, or it is not waited for any longer. */
  left(attempt: Attempt): void
  /** There may be room for more. */
  room(): void
  /** How an attempt ended was written, if `took`; else its lease was lost. */
  settled(attempt: Attempt, verdict: Verdict, took: boolean, error: unknown): void
}

export interface ExecutorParts {
  readonly parts: Pick<JobsParts, 'store' | 'logs' | 'telemetry' | 'activity' | 'contention' | 'clock'>
  readonly options: Pick<
    ResolvedWorkerOptions,
    'handlers' | 'concurrency' | 'leaseMs' | 'transactionTimeoutMs'
  >
  readonly tally: Tally
  readonly watch: RunnerWatch
  /** How batches are filled up. */
  readonly gathering: Pick<GatherParts, 'claim' | 'rest'>
}

/**
 * Runs claimed jobs: each waits in the buffer for a place and is given to its handler; its outcome is judged and written.
 * The executor neither claims nor renews. No error of a handler reaches the worker that brought the job.
 */
export class Executor implements AttemptHost {
  readonly store: JobStore
  readonly groups: TransactionGroups
  readonly clock: Clock
  readonly leaseMs: number
  readonly transactionTimeoutMs: number
  readonly completer: Completer
  readonly logWriter: LogWriter | undefined
  /** Everything whose lease is ours: buffered, running, or ended and not written yet. */
  readonly held: Set<Attempt> = new Set()
  readonly running: Set<Attempt> = new Set()
  readonly #options: ExecutorParts['options']
  readonly #tally: Tally
  readonly #watch: RunnerWatch
  readonly #contention: Contention
  readonly #jobKind: number
  readonly #telemetry: JobsTelemetry | undefined
  readonly #activity: JobActivity | undefined
  readonly #batches: Batches
  /** Handlers that run, or whose batch is being filled up. */
  #places = 0
  #buffer: Attempt[] = []
  #next = 0
  #whenNoneRuns: (() => void) | undefined

  constructor({ parts, options, tally, watch, gathering }: ExecutorParts) {
    const { store, logs, telemetry, activity, contention = noContention, clock = systemClock } = parts
    this.store = store
    this.clock = clock
    this.leaseMs = options.leaseMs
    this.transactionTimeoutMs = options.transactionTimeoutMs
    this.groups = createTransactionGroups(store)
    this.#options = options
    this.#tally = tally
    this.#watch = watch
    this.#contention = contention
    this.#telemetry = telemetry
    this.#activity = activity
    this.#batches = this.#createBatches(gathering)
    this.logWriter =
      logs &&
      createLogWriter(logs, (error) =>
        tally.warn('Log lines and progress of jobs could not be written yet.', error),
      )
    // Jobs that were claimed ahead wait for a place on purpose.
    this.#jobKind = contention.kind('worker.job', {
      lane: 'worker',
      size: options.concurrency,
      warnMs: 1_000,
    })
    const settleKind = contention.kind('worker.settle', { warnMs: 1_000 })
    const settling: Pick<JobStore, 'settle' | 'outcomes'> = {
      settle: (verdicts) => contention.during(settleKind, () => store.settle(verdicts)),
      outcomes: (leases) => store.outcomes(leases),
    }
    this.completer = new Completer(settling, {
      onTrouble: (error) => tally.warn('Ends of jobs could not be written yet.', error),
      // What was not written yet may have been the reason to claim no more.
      onWritten: () => watch.room(),
    })
  }

  get load(): { running: number; buffered: number; settling: number } {
    return {
      running: this.#places,
      buffered: this.#buffer.length - this.#next,
      settling: this.completer.size,
    }
  }

  /** Takes what a claim brought that was sent at that moment; `pump` begins it. */
  receive(records: readonly ClaimedRecord[], sentAt: number): void {
    for (const record of records) {
      const attempt = this.#hold(record, sentAt)
      if (!this.#batches.join(attempt)) this.#buffer.push(attempt)
    }
  }

  #hold(record: ClaimedRecord, sentAt: number): Attempt {
    this.#tally.counts.claimed++
    const handler = this.#options.handlers.get(record.kind)!
    const attempt = new Attempt(this, record, handler, sentAt + this.leaseMs)
    attempt.ticket = this.#contention.begin(this.#jobKind, record.kind)
    this.held.add(attempt)
    return attempt
  }

  /** Starts handlers while there are slots and jobs. */
  pump(): void {
    const { concurrency } = this.#options
    while (this.#places < concurrency && this.#next < this.#buffer.length) {
      const attempt = this.#buffer[this.#next++]!
      // It may have been lost or handed back while it waited.
      if (attempt.isEnded) continue
      this.#places++
      if (attempt.handler.batch === undefined) this.#begin(attempt)
      else this.#batches.fill(attempt)
    }
    if (this.#next === this.#buffer.length && this.#next > 0) {
      this.#buffer = []
      this.#next = 0
    }
    this.#watch.room()
  }

  #createBatches(gathering: ExecutorParts['gathering']): Batches {
    return new Batches(
      {
        hold: (record, sentAt) => this.#hold(record, sentAt),
        wait: (attempt) => void this.#buffer.push(attempt),
        takeWaiting: (handler, limit) => this.#takeWaiting(handler, limit),
        enter: (attempt) => this.#enter(attempt),
        vacate: (attempt) => this.#vacate(attempt),
        handBack: (attempt) => this.#handBack(attempt),
        call: (attempts, run, returns, throws) => this.#call(this.#traced(attempts, run), returns, throws),
        returned: (attempt, value) => this.#returned(attempt, value),
        threw: (attempt, error) => this.#threw(attempt, error),
        pump: () => this.pump(),
        warn: (message, error) => this.#tally.warn(message, error),
      },
      gathering,
    )
  }

  #takeWaiting(handler: BatchHandler, limit: number): readonly Attempt[] {
    const taken: Attempt[] = []
    for (let at = this.#next; at < this.#buffer.length && taken.length < limit; at++) {
      const attempt = this.#buffer[at]!
      if (attempt.handler !== handler || attempt.isEnded) continue
      taken.push(attempt)
      this.#buffer.splice(at--, 1)
    }
    return taken
  }

  settle(attempt: Attempt, verdict: Verdict): Promise<boolean> {
    return new Promise((resolve) => {
      this.completer.settle(attempt, verdict, (took) => {
        this.#settled(attempt, verdict, took, decodeError(verdict.error))
        resolve(took)
      })
    })
  }

  confirm(attempt: Attempt, verdict: Verdict): Promise<{ committed: boolean; took: boolean }> {
    return new Promise((resolve) => {
      this.completer.confirm(attempt, verdict, (committed, took) => resolve({ committed, took }))
    })
  }

  noted(attempt: Attempt, verdict: Verdict, took: boolean): void {
    this.#settled(attempt, verdict, took, undefined)
  }

  /** The lease is not ours any more. */
  lose(attempt: Attempt): void {
    if (!attempt.end()) return
    attempt.abort(leaseLost(attempt.jobId))
    this.held.delete(attempt)
    this.#leave(attempt)
    this.#tally.lost(attempt.record)
    attempt.span?.ended(attempt.record, 'lost', undefined)
    this.pump()
  }

  /** Gives back what has not begun; nothing more will begin. */
  handBackBuffer(): void {
    this.#batches.handBack()
    for (const attempt of this.#buffer.splice(this.#next)) this.#handBack(attempt)
    this.#buffer = []
    this.#next = 0
  }

  /** Batches are gathered again after `handBackBuffer`. */
  reopen(): void {
    this.#batches.reopen()
  }

  /** Waits up to `timeoutMs` for what runs, then aborts and gives back the rest, and waits until all is written. */
  async finish(timeoutMs: number): Promise<void> {
    // Jobs that are being claimed for a batch must be handed back, or they stay leased until the lease ends.
    await Promise.race([this.#batches.settle(), timer(5_000)])
    await this.#noneRuns(timeoutMs)
    for (const attempt of [...this.running]) {
      attempt.abort(new DOMException('The worker stops.', 'AbortError'))
      this.#handBack(attempt)
      this.#leave(attempt)
    }
    await Promise.race([this.completer.idle(), timer(5_000)])
    await this.logWriter?.idle(2_000)
  }

  #begin(attempt: Attempt): void {
    this.#enter(attempt)
    this.#call(
      this.#telemetry === undefined ? () => attempt.run() : this.#traced([attempt], () => attempt.run()),
      (value) => this.#returned(attempt, value),
      (error) => this.#threw(attempt, error),
    )
  }

  /** The same call, in a separate span if tracing is on. */
  #traced(attempts: readonly Attempt[], run: () => unknown): () => unknown {
    const telemetry = this.#telemetry
    if (telemetry === undefined) return run
    return () => {
      const span = telemetry.running(attempts.map(({ record }) => record))
      for (const attempt of attempts) attempt.span = span
      return span.call(run)
    }
  }

  #enter(attempt: Attempt): void {
    this.running.add(attempt)
    this.#activity?.started(attempt.record)
    this.#contention.enter(attempt.ticket)
    const { timeoutMs } = attempt.record
    if (timeoutMs !== null)
      attempt.timer = this.clock.setTimeout(() => this.#timeOut(attempt, timeoutMs), timeoutMs)
  }

  /** Calls a handler. None of what it does is heard before this turn is over. */
  #call(run: () => unknown, returns: (value: unknown) => void, throws: (error: unknown) => void): void {
    try {
      const returned: unknown = run()
      // Wrap it in a Promise: a foreign thenable may throw on access, throw when it is called, or call back twice, and the
      // pump must see none of that. Other values need no promise.
      if (typeof returned === 'object' && returned !== null) {
        Promise.resolve(returned).then(returns, throws)
      } else queueMicrotask(() => returns(returned))
    } catch (error) {
      // Not here: a handler that throws at once must not grow the stack of a handler that ended.
      queueMicrotask(() => throws(error))
    }
  }

  #returned(attempt: Attempt, value: unknown): void {
    // The handler forgot an `await`: acking now would complete the job without the transaction, and its rows would be lost.
    if (attempt.openTransaction && !attempt.isEnded) {
      attempt.openTransaction.then(
        () => this.#returned(attempt, value),
        (error: unknown) => this.#threw(attempt, error),
      )
      return
    }
    this.#leave(attempt)
    if (attempt.isEnded) this.held.delete(attempt)
    else if (attempt.pledged) {
      const error = rolledBack(attempt.jobId)
      this.#finish(attempt, attempt.outcomeOf(error), error)
    } else if (attempt.handler.finish === 'transaction') {
      this.#tally.counts.ackMissing++
      const error = ackMissing(attempt.jobId)
      this.#tally.warn(error.message)
      this.#finish(attempt, { kind: 'threw', error: encodeError(error) }, error)
    } else this.#finish(attempt, { kind: 'returned', result: this.#encodeResult(attempt, value) })
    this.pump()
  }

  #threw(attempt: Attempt, error: unknown): void {
    this.#leave(attempt)
    if (attempt.isEnded) {
      this.held.delete(attempt)
      if (!isSignalboxError(error, 'lease_lost')) this.#tally.late(attempt.record, error)
    } else if (attempt.pledged) this.#finish(attempt, attempt.outcomeOf(error), error, true)
    else if (isSignalboxError(error, 'payload_sealed') && isSealed(attempt.record.payload)) {
      this.#putOff(attempt, error)
    } else if (isFinal(error) || isUnreadable(attempt, error)) {
      this.#finish(attempt, { kind: 'threw', error: encodeError(error), dead: true }, error)
    } else this.#finish(attempt, attempt.outcomeOf(error), error)
    this.pump()
  }

  /** This worker has no key to open the payload. Another worker may have it: the job waits for it and keeps its attempt. */
  #putOff(attempt: Attempt, error: Error): void {
    attempt.log(error.message, 'warn')
    this.#tally.warn(error.message, error)
    this.#finish(attempt, { kind: 'snoozed', delayMs: sealedDelayMs }, error)
  }

  /**
   * The attempt is over: writes its end. If the user ended it in a transaction of theirs, that end stands where it was
   * committed, with the error that it keeps.
   */
  #finish(attempt: Attempt, outcome: Outcome, error?: unknown, hasThrown = false): void {
    if (!attempt.end()) return
    const verdict = attempt.judge(outcome)
    const { pledged } = attempt
    if (pledged === undefined) {
      this.completer.settle(attempt, verdict, (took) => this.#settled(attempt, verdict, took, error))
      return
    }
    this.completer.confirm(attempt, verdict, (committed, took) => {
      if (!committed) return this.#settled(attempt, verdict, took, error)
      this.#settled(attempt, pledged, true, decodeError(pledged.error))
      if (hasThrown) this.#tally.late(attempt.record, error)
    })
  }

  #settled(attempt: Attempt, verdict: Verdict, took: boolean, error: unknown): void {
    this.held.delete(attempt)
    this.#contention.leave(attempt.ticket)
    this.#tally.settled(attempt.record, verdict, took, error)
    if (took) this.#activity?.ended(attempt.record, outcomeOf(attempt.record, verdict), verdict.ranMs)
    attempt.span?.ended(attempt.record, took ? outcomeOf(attempt.record, verdict) : 'lost', error)
    this.#watch.settled(attempt, verdict, took, error)
  }

  #leave(attempt: Attempt): void {
    this.#contention.leave(attempt.ticket)
    if (!this.running.delete(attempt)) return
    if (attempt.timer !== undefined) this.clock.clearTimeout(attempt.timer)
    this.#vacate(attempt)
    this.#watch.left(attempt)
    if (this.running.size === 0) this.#whenNoneRuns?.()
  }

  /** Gives up its place, or its part in its batch's. */
  #vacate(attempt: Attempt): void {
    if (attempt.batch === undefined || attempt.batch.leave(attempt)) this.#places--
  }

  #timeOut(attempt: Attempt, timeoutMs: number): void {
    const error = timedOut(attempt.jobId, timeoutMs)
    attempt.abort(error)
    this.#leave(attempt)
    const threw = { kind: 'threw', error: encodeError(error) } as const
    this.#finish(attempt, attempt.pledged ? attempt.outcomeOf(error) : threw, error, true)
    this.pump()
  }

  #handBack(attempt: Attempt): void {
    this.#finish(attempt, { kind: 'interrupted', delayMs: 0 })
  }

  async #noneRuns(timeoutMs: number): Promise<void> {
    if (this.running.size === 0 || timeoutMs <= 0) return
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

/** What is kept of it will be no better next time. */
function isUnreadable({ record }: Attempt, error: unknown): boolean {
  if (isSignalboxError(error, 'seal_broken')) return isSealed(record.payload)
  return isSignalboxError(error, 'undecodable')
}

function timer(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)).unref())
}
