import { type Contention, noContention } from '../../contention/index.ts'
import { type Clock, patientClock, systemClock, within } from '../../core/clock.ts'
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
import { Completer } from './completer.ts'
import { Batches, type Gathering } from './handler-batch.ts'
import { createTransactionGroups, type TransactionGroups } from './transaction-groups.ts'
import type { BatchHandler, ResolvedWorkerOptions } from './worker-options.ts'
import type { Tally } from './worker-tally.ts'

/** The events that an executor reports to its worker. */
export interface ExecutorHooks {
  /** A handler freed its slot: it ended, or the executor stopped waiting for it. */
  slotFreed(attempt: Attempt): void
  /** The executor may have free slots. */
  capacityChanged(): void
  /** The store wrote the verdict on an attempt (`written`), or refused it because the worker lost the lease. */
  settled(attempt: Attempt, verdict: Verdict, written: boolean, error: unknown): void
}

export interface ExecutorParts {
  readonly parts: Pick<JobsParts, 'store' | 'logs' | 'telemetry' | 'activity' | 'contention' | 'clock'>
  readonly options: Pick<
    ResolvedWorkerOptions,
    'handlers' | 'concurrency' | 'leaseMs' | 'transactionTimeoutMs'
  >
  readonly tally: Tally
  readonly hooks: ExecutorHooks
  /** How a batch gets more jobs. */
  readonly gathering: Gathering
}

/**
 * Runs claimed jobs. A job waits in the buffer for a free slot; then its handler runs, and the completer writes the
 * verdict. The executor neither claims nor renews. An error of a handler never reaches the worker.
 */
export class Executor implements AttemptHost {
  readonly store: JobStore
  readonly groups: TransactionGroups
  readonly clock: Clock
  readonly leaseMs: number
  readonly transactionTimeoutMs: number
  readonly completer: Completer
  readonly logWriter: LogWriter | undefined
  /** Attempts whose lease this worker holds: buffered, running, or ended but not yet written. */
  readonly held: Set<Attempt> = new Set()
  readonly running: Set<Attempt> = new Set()
  readonly #options: ExecutorParts['options']
  readonly #tally: Tally
  readonly #hooks: ExecutorHooks
  readonly #contention: Contention
  readonly #jobKind: number
  readonly #telemetry: JobsTelemetry | undefined
  readonly #activity: JobActivity | undefined
  readonly #batches: Batches
  /** Slots of handlers that run and of batches that are being filled. */
  #usedSlots = 0
  #buffer: Attempt[] = []
  #nextIndex = 0
  #onNoneRuns: (() => void) | undefined

  constructor({ parts, options, tally, hooks, gathering }: ExecutorParts) {
    const { store, logs, telemetry, activity, contention = noContention, clock = systemClock } = parts
    this.store = store
    this.clock = clock
    this.leaseMs = options.leaseMs
    this.transactionTimeoutMs = options.transactionTimeoutMs
    this.groups = createTransactionGroups(store)
    this.#options = options
    this.#tally = tally
    this.#hooks = hooks
    this.#contention = contention
    this.#telemetry = telemetry
    this.#activity = activity
    this.#batches = new Batches(this, gathering)
    this.logWriter =
      logs &&
      createLogWriter(logs, (error) =>
        tally.warn('Log lines and progress of jobs could not be written yet.', error),
      )
    // In its own class of the contention report: prefetched jobs wait for a slot on purpose.
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
      onError: (error) => tally.warn('Ends of jobs could not be written yet.', error),
      // The fetcher claims nothing while too many verdicts wait to be written.
      onWriteEnded: () => hooks.capacityChanged(),
    })
  }

  get load(): { running: number; buffered: number; settling: number } {
    return {
      running: this.#usedSlots,
      buffered: this.#buffer.length - this.#nextIndex,
      settling: this.completer.size,
    }
  }

  /** Buffers the jobs of a claim that was sent at `sentAt`; `pump` starts them. */
  receive(records: readonly ClaimedRecord[], sentAt: number): void {
    for (const record of records) {
      const attempt = this.hold(record, sentAt)
      if (!this.#batches.join(attempt)) this.enqueue(attempt)
    }
  }

  /** Creates the attempt for a job whose claim was sent at `sentAt`. */
  hold(record: ClaimedRecord, sentAt: number): Attempt {
    this.#tally.counts.claimed++
    const handler = this.#options.handlers.get(record.kind)!
    const attempt = new Attempt(this, record, handler, sentAt + this.leaseMs)
    attempt.ticket = this.#contention.begin(this.#jobKind, record.kind)
    this.held.add(attempt)
    return attempt
  }

  /** Puts the attempt into the buffer, where it waits for a slot. */
  enqueue(attempt: Attempt): void {
    this.#buffer.push(attempt)
  }

  /** Starts handlers while there are slots and jobs. */
  pump(): void {
    const { concurrency } = this.#options
    while (this.#usedSlots < concurrency && this.#nextIndex < this.#buffer.length) {
      const attempt = this.#buffer[this.#nextIndex++]!
      // The worker may have lost the lease or handed the job back meanwhile.
      if (attempt.isEnded) continue
      this.#usedSlots++
      if (attempt.handler.batch === undefined) this.#begin(attempt)
      else this.#batches.fill(attempt)
    }
    if (this.#nextIndex === this.#buffer.length && this.#nextIndex > 0) {
      this.#buffer = []
      this.#nextIndex = 0
    }
    this.#hooks.capacityChanged()
  }

  /** Takes up to `limit` attempts for this handler from the buffer. */
  takeWaiting(handler: BatchHandler, limit: number): readonly Attempt[] {
    const taken: Attempt[] = []
    for (let at = this.#nextIndex; at < this.#buffer.length && taken.length < limit; at++) {
      const attempt = this.#buffer[at]!
      if (attempt.handler !== handler || attempt.isEnded) continue
      taken.push(attempt)
      this.#buffer.splice(at--, 1)
    }
    return taken
  }

  settle(attempt: Attempt, verdict: Verdict): Promise<boolean> {
    return new Promise((resolve) => {
      this.completer.settle(attempt, verdict, (written) => {
        this.#settled(attempt, verdict, written, decodeError(verdict.error))
        resolve(written)
      })
    })
  }

  confirm(attempt: Attempt, verdict: Verdict): Promise<{ committed: boolean; written: boolean }> {
    return new Promise((resolve) => {
      this.completer.confirm(attempt, verdict, (committed, written) => resolve({ committed, written }))
    })
  }

  recorded(attempt: Attempt, verdict: Verdict, written: boolean): void {
    this.#settled(attempt, verdict, written, undefined)
  }

  /** The worker lost the lease. */
  lose(attempt: Attempt): void {
    if (!attempt.end()) return
    attempt.abort(leaseLost(attempt.jobId))
    this.held.delete(attempt)
    this.#stopRunning(attempt)
    this.#tally.lost(attempt.record)
    attempt.span?.ended(attempt.record, 'lost', undefined)
    this.pump()
  }

  /** Hands back the jobs that have not started. */
  handBackBuffer(): void {
    this.#batches.handBack()
    for (const attempt of this.#buffer.splice(this.#nextIndex)) this.handBack(attempt)
    this.#buffer = []
    this.#nextIndex = 0
  }

  /** Fills batches again after `handBackBuffer`. */
  reopen(): void {
    this.#batches.reopen()
  }

  /** Waits up to `timeoutMs` for running handlers, aborts and hands back the rest, and waits until all is written. */
  async drain(timeoutMs: number): Promise<void> {
    // Jobs that are being claimed for a batch must be handed back, or they stay leased until the lease ends.
    await within(5_000, this.#batches.stopFilling(), () => undefined, patientClock)
    await this.#waitUntilNoneRuns(timeoutMs)
    for (const attempt of [...this.running]) {
      attempt.abort(new DOMException('The worker stops.', 'AbortError'))
      this.handBack(attempt)
      this.#stopRunning(attempt)
    }
    await within(5_000, this.completer.idle(), () => undefined, patientClock)
    await this.logWriter?.idle(2_000)
  }

  #begin(attempt: Attempt): void {
    this.startRunning(attempt)
    this.#call(
      this.#telemetry === undefined ? () => attempt.run() : this.#traced([attempt], () => attempt.run()),
      (value) => this.returned(attempt, value),
      (error) => this.threw(attempt, error),
    )
  }

  warn(message: string, error: unknown): void {
    this.#tally.warn(message, error)
  }

  /** Wraps the call in a span if tracing is on. */
  #traced(attempts: readonly Attempt[], run: () => unknown): () => unknown {
    const telemetry = this.#telemetry
    if (telemetry === undefined) return run
    return () => {
      const span = telemetry.running(attempts.map(({ record }) => record))
      for (const attempt of attempts) attempt.span = span
      return span.call(run)
    }
  }

  /** Marks the attempt as running and starts its time-out. */
  startRunning(attempt: Attempt): void {
    this.running.add(attempt)
    this.#activity?.started(attempt.record)
    this.#contention.enter(attempt.ticket)
    const { timeoutMs } = attempt.record
    if (timeoutMs !== null)
      attempt.timer = this.clock.setTimeout(() => this.#timeOut(attempt, timeoutMs), timeoutMs)
  }

  /** Calls the handler of a batch. */
  callBatch(
    attempts: readonly Attempt[],
    run: () => unknown,
    returns: (value: unknown) => void,
    throws: (error: unknown) => void,
  ): void {
    this.#call(this.#traced(attempts, run), returns, throws)
  }

  /** Calls a handler. Its effects reach the executor only in a later turn of the event loop. */
  #call(run: () => unknown, returns: (value: unknown) => void, throws: (error: unknown) => void): void {
    try {
      const returned: unknown = run()
      // A promise shields the pump from a foreign thenable, which may throw on access or on call, or call back twice.
      // Other values need no promise.
      if (typeof returned === 'object' && returned !== null) {
        Promise.resolve(returned).then(returns, throws)
      } else queueMicrotask(() => returns(returned))
    } catch (error) {
      // In a microtask: handlers that throw at once would otherwise nest, because each end starts the next handler.
      queueMicrotask(() => throws(error))
    }
  }

  /** The handler of this attempt returned. */
  returned(attempt: Attempt, value: unknown): void {
    // The handler forgot an `await`. An ack now would complete the job without the transaction and lose its rows.
    if (attempt.openTransaction && !attempt.isEnded) {
      attempt.openTransaction.then(
        () => this.returned(attempt, value),
        (error: unknown) => this.threw(attempt, error),
      )
      return
    }
    this.#stopRunning(attempt)
    if (attempt.isEnded) this.held.delete(attempt)
    else if (attempt.unconfirmedVerdict) {
      const error = rolledBack(attempt.jobId)
      this.#endWith(attempt, attempt.outcomeOf(error), error)
    } else if (attempt.handler.finish === 'transaction') {
      this.#tally.counts.ackMissing++
      const error = ackMissing(attempt.jobId)
      this.#tally.warn(error.message)
      this.#endWith(attempt, { kind: 'threw', error: encodeError(error) }, error)
    } else this.#endWith(attempt, { kind: 'returned', result: this.#encodeResult(attempt, value) })
    this.pump()
  }

  /** The handler of this attempt threw. */
  threw(attempt: Attempt, error: unknown): void {
    this.#stopRunning(attempt)
    if (attempt.isEnded) {
      this.held.delete(attempt)
      if (!isSignalboxError(error, 'lease_lost')) this.#tally.late(attempt.record, error)
    } else if (attempt.unconfirmedVerdict) this.#endWith(attempt, attempt.outcomeOf(error), error, true)
    else if (isSignalboxError(error, 'payload_sealed') && isSealed(attempt.record.payload)) {
      this.#snoozeSealed(attempt, error)
    } else if (isFinal(error) || isUnreadable(attempt, error)) {
      this.#endWith(attempt, { kind: 'threw', error: encodeError(error), dead: true }, error)
    } else this.#endWith(attempt, attempt.outcomeOf(error), error)
    this.pump()
  }

  /** This worker has no key for the payload, but another may have it. The job waits and keeps its attempt. */
  #snoozeSealed(attempt: Attempt, error: Error): void {
    attempt.log(error.message, 'warn')
    this.#tally.warn(error.message, error)
    this.#endWith(attempt, { kind: 'snoozed', delayMs: sealedDelayMs }, error)
  }

  /**
   * Ends the attempt and writes its verdict. If the caller acked or nacked in its own transaction and committed, that
   * verdict and its error stand.
   */
  #endWith(attempt: Attempt, outcome: Outcome, error?: unknown, hasThrown = false): void {
    if (!attempt.end()) return
    const verdict = attempt.judge(outcome)
    const { unconfirmedVerdict } = attempt
    if (unconfirmedVerdict === undefined) {
      this.completer.settle(attempt, verdict, (written) => this.#settled(attempt, verdict, written, error))
      return
    }
    this.completer.confirm(attempt, verdict, (committed, written) => {
      if (!committed) return this.#settled(attempt, verdict, written, error)
      this.#settled(attempt, unconfirmedVerdict, true, decodeError(unconfirmedVerdict.error))
      if (hasThrown) this.#tally.late(attempt.record, error)
    })
  }

  #settled(attempt: Attempt, verdict: Verdict, written: boolean, error: unknown): void {
    this.held.delete(attempt)
    this.#contention.leave(attempt.ticket)
    this.#tally.settled(attempt.record, verdict, written, error)
    if (written) this.#activity?.ended(attempt.record, outcomeOf(attempt.record, verdict), verdict.ranMs)
    attempt.span?.ended(attempt.record, written ? outcomeOf(attempt.record, verdict) : 'lost', error)
    this.#hooks.settled(attempt, verdict, written, error)
  }

  #stopRunning(attempt: Attempt): void {
    this.#contention.leave(attempt.ticket)
    if (!this.running.delete(attempt)) return
    if (attempt.timer !== undefined) this.clock.clearTimeout(attempt.timer)
    this.freeSlot(attempt)
    this.#hooks.slotFreed(attempt)
    if (this.running.size === 0) this.#onNoneRuns?.()
  }

  /** Frees the slot of the attempt. A batch frees its slot with its last attempt. */
  freeSlot(attempt: Attempt): void {
    if (attempt.batch === undefined || attempt.batch.leave(attempt)) this.#usedSlots--
  }

  #timeOut(attempt: Attempt, timeoutMs: number): void {
    const error = timedOut(attempt.jobId, timeoutMs)
    attempt.abort(error)
    this.#stopRunning(attempt)
    const threw = { kind: 'threw', error: encodeError(error) } as const
    this.#endWith(attempt, attempt.unconfirmedVerdict ? attempt.outcomeOf(error) : threw, error, true)
    this.pump()
  }

  /** Returns the job to its queue without using up an attempt. */
  handBack(attempt: Attempt): void {
    this.#endWith(attempt, { kind: 'interrupted', delayMs: 0 })
  }

  async #waitUntilNoneRuns(timeoutMs: number): Promise<void> {
    if (this.running.size === 0 || timeoutMs <= 0) return
    const none = new Promise<void>((resolve) => {
      this.#onNoneRuns = resolve
    })
    await within(timeoutMs, none, () => undefined, patientClock)
    this.#onNoneRuns = undefined
  }

  /** Encodes what the handler returned. The work is done, so a result that cannot be encoded is no failure. */
  #encodeResult(attempt: Attempt, value: unknown): string | null {
    if (value === undefined) return null
    try {
      return encodeJson('the result', value)
    } catch (error) {
      this.#tally.warn(
        `The result of job "${attempt.jobId}" (${attempt.record.kind}) cannot be stored and was dropped.`,
        error,
      )
      return null
    }
  }
}

/** The stored payload is broken, so another attempt would fail too. */
function isUnreadable({ record }: Attempt, error: unknown): boolean {
  if (isSignalboxError(error, 'seal_broken')) return isSealed(record.payload)
  return isSignalboxError(error, 'undecodable')
}
