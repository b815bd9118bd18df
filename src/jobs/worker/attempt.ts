import { inCallerTransaction, refuseCommit, throwIfRefused } from '../../core/caller-transaction.ts'
import type { Clock } from '../../core/clock.ts'
import { encodeError } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import { duration, onlyKeys } from '../../core/options.ts'
import { type Ending, resolveAck, resolveNack } from '../api/held-jobs.ts'
import type { AckOptions, Ended, NackOptions } from '../api/jobs-api.ts'
import { leaseLost } from '../job-errors.ts'
import type { ClaimedRecord, JobStore, LeaseRef, StoreTransaction, Verdict } from '../job-store.ts'
import { judge, type Outcome } from '../lifecycle.ts'
import type { LogWriter, PendingLog } from '../logs/log-writer.ts'
import type { RunSpan } from '../telemetry/telemetry.ts'
import type { Batch } from './handler-batch.ts'
import { RunningJob } from './handler-job.ts'
import type { TransactionGroups } from './transaction-groups.ts'
import type { PlainHandler, ResolvedHandler } from './worker-options.ts'

/** What an attempt needs of its worker. */
export interface AttemptHost {
  readonly store: JobStore
  readonly groups: TransactionGroups
  /** What an attempt's own time is read from. */
  readonly clock: Clock
  readonly leaseMs: number
  /** Of transactions that say nothing themselves; 0: the store's own. */
  readonly transactionTimeoutMs: number
  /** What handlers say of their jobs. Undefined: it is not kept. */
  readonly logWriter: LogWriter | undefined
  /** Writes a verdict with others; answers whether it took. */
  settle(attempt: Attempt, verdict: Verdict): Promise<boolean>
  /** COMMIT's answer was lost: finds out whether the attempt was ended, and writes this verdict if not. */
  confirm(
    attempt: Attempt,
    verdict: Verdict,
  ): Promise<{ readonly committed: boolean; readonly took: boolean }>
  /** Learns of a verdict that did not go through `settle`: it was committed with the user's rows, or lost with them. */
  noted(attempt: Attempt, verdict: Verdict, took: boolean): void
}

/** Store trouble that is not the handler's fault: the attempt is given back. */
const ourTrouble = ['transaction_conflict', 'store_busy', 'store_unavailable', 'commit_unknown'] as const
const troubleDelayMs = 500

/**
 * One claimed job in a worker, from its claim to the verdict. The first of these events ends it, and only once:
 *
 *     open ──┬─ transaction committed ──────────▶ ended   (store wrote it with the user's rows)
 *            ├─ ack/nack in the user's own tx ──▶ unsure  (counts when they commit; asked when the handler settles)
 *            ├─ ack/nack, return, throw ────────▶ ended   (written by the completer)
 *            ├─ timeout, hand-back ─────────────▶ ended
 *            └─ lease lost ─────────────────────▶ ended   (nothing may be written any more)
 */
export class Attempt implements LeaseRef {
  readonly jobId: string
  readonly token: string
  readonly record: ClaimedRecord
  readonly handler: ResolvedHandler
  readonly #host: AttemptHost
  /** By the host's clock; 0 until the handler is called. */
  #begunAt = 0
  #controller: AbortController | undefined
  #abortReason: unknown
  #isEnded = false
  #pledged: Verdict | undefined
  #transaction: Promise<unknown> | undefined
  /** The transaction whose work is running now. It ends the job, and nothing else may. */
  #workIn: StoreTransaction | undefined
  #isCancelled = false
  #trouble: unknown
  #log: PendingLog | undefined
  /** Up to when the lease surely holds, by the process's monotonic clock. */
  leaseUntil: number
  /** Its time-out, when it has one. */
  timer: unknown
  /** Of its wait for a place among those that run, and of its turn there. */
  ticket = 0
  /** The span of its handler's call, if tracing is on. */
  span: RunSpan | undefined
  /** Those it is run with, when it is run with others. */
  batch: Batch | undefined

  constructor(host: AttemptHost, record: ClaimedRecord, handler: ResolvedHandler, leaseUntil: number) {
    this.#host = host
    this.record = record
    this.jobId = record.id
    this.token = record.token
    this.handler = handler
    this.leaseUntil = leaseUntil
  }

  get attempt(): number {
    return this.record.attempt
  }

  get begunAt(): number {
    return this.#begunAt
  }

  /** Its verdict is written, or must not be written any more. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** It was acked or nacked so in a transaction of the user's, who may or may not have committed. */
  get pledged(): Verdict | undefined {
    return this.#pledged
  }

  /** The `transaction` of it that is under way; it will say itself whether the lease held. */
  get openTransaction(): Promise<unknown> | undefined {
    return this.#transaction
  }

  get isAborted(): boolean {
    return this.#abortReason !== undefined
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Made when first asked for: most handlers never look. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  abort(reason: unknown): void {
    if (this.#abortReason !== undefined) return
    this.#abortReason = reason
    this.#controller?.abort(reason)
    this.batch?.aborted(reason)
  }

  cancel(): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    this.abort(new DOMException(`Job "${this.jobId}" was cancelled.`, 'AbortError'))
  }

  /** From here on only writes that are under way go on. True for the first caller. */
  end(): boolean {
    if (this.#isEnded) return false
    this.#isEnded = true
    if (this.timer !== undefined) this.#host.clock.clearTimeout(this.timer)
    // Close the log before the end is written, so that a reader of the end finds the last lines.
    if (this.#log !== undefined) this.#host.logWriter?.close(this.#log)
    return true
  }

  /** The job as its handler sees it. Throws `undecodable` when there is nothing to see. */
  begin(): RunningJob {
    const job = new RunningJob(this, this.record)
    this.#begunAt = this.#host.clock.now()
    return job
  }

  /** Calls the handler. Throws what `begin` throws. */
  run(): unknown {
    // The attempt has a `signal`, made when it is looked at; it is the context itself.
    return (this.handler as PlainHandler).run(this.begin(), this)
  }

  progress(update: unknown): void {
    const log = this.#openLog()
    if (log !== undefined) this.#host.logWriter?.progress(log, update)
  }

  log(text: unknown, level: unknown): void {
    const log = this.#openLog()
    if (log !== undefined) this.#host.logWriter?.line(log, text, level)
  }

  /** The verdict on what the handler came to. */
  judge(outcome: Outcome): Verdict {
    const ranMs = this.#begunAt === 0 ? null : Math.round(this.#host.clock.now() - this.#begunAt)
    return judge(this.record, outcome, ranMs)
  }

  /** What a throw means: cancelled when that was asked for, interrupted when the store was to blame, else a failure. */
  outcomeOf(error: unknown): Outcome {
    if (this.#isCancelled) return { kind: 'cancelled', error: encodeError(error) }
    if (error !== undefined && error === this.#trouble)
      return { kind: 'interrupted', delayMs: troubleDelayMs }
    return { kind: 'threw', error: encodeError(error) }
  }

  transaction<Result>(
    work: (tx: StoreTransaction) => Promise<Result> | Result,
    options?: { readonly timeoutMs?: Duration },
  ): Promise<Result> {
    const transaction = this.#transact(work, options).finally(() => {
      if (this.#transaction === transaction) this.#transaction = undefined
    })
    this.#transaction = transaction
    return transaction
  }

  async #transact<Result>(
    work: (tx: StoreTransaction) => Promise<Result> | Result,
    options: { readonly timeoutMs?: Duration } = {},
  ): Promise<Result> {
    onlyKeys('transaction', options, ['timeoutMs'])
    const timeoutMs =
      options.timeoutMs === undefined
        ? this.#host.transactionTimeoutMs
        : duration('transaction.timeoutMs', options.timeoutMs, { min: 1 })
    this.#mustBeOpen()
    this.#mustBeOutsideWork('transaction')
    let result!: Result
    let verdict!: Verdict
    // What the work itself threw may look like the store's answer: it may be about another job.
    const own: { error?: unknown } = {}
    const step = async (tx: StoreTransaction): Promise<Verdict> => {
      this.#workIn = tx
      try {
        result = await work(tx)
        // A call in this transaction failed, and the work caught the error.
        throwIfRefused(tx)
      } catch (error) {
        own.error = error
        throw error
      } finally {
        this.#workIn = undefined
      }
      const kept = result === undefined ? null : encodeJson('the result', result)
      verdict = this.judge({ kind: 'returned', result: kept })
      return verdict
    }
    try {
      const { group } = this.handler
      const limits = { timeoutMs, leaseMs: this.#host.leaseMs, signal: this.signal }
      if (group > 1) await this.#host.groups.run(group, step, limits)
      else await this.#host.store.transact(step, limits)
    } catch (error) {
      const isLost = isSignalboxError(error, 'lease_lost') && error !== own.error
      if (!(await this.#committedAfterAll(error, isLost))) throw error
    }
    if (this.end()) this.#host.noted(this, verdict, true)
    return result
  }

  async ack(options: AckOptions = {}): Promise<Ended> {
    this.#mustBeOutsideWork('ack')
    return this.#endIn(options.tx, resolveAck(options))
  }

  async nack(options: NackOptions = {}): Promise<Ended> {
    this.#mustBeOutsideWork('nack')
    return this.#endIn(options.tx, resolveNack(options))
  }

  /** Also when the attempt has ended already: then the caller's work was for nothing, and must not be committed. */
  #endIn(tx: unknown, ending: Ending): Promise<Ended> {
    return inCallerTransaction(this.#host.store, tx, () => this.#write(ending, tx))
  }

  async #write({ outcome, ranMs }: Ending, tx: unknown): Promise<Ended> {
    this.#mustBeOpen()
    const verdict = ranMs === null ? this.judge(outcome) : judge(this.record, outcome, ranMs)
    if (tx === undefined) {
      this.end()
      if (!(await this.#host.settle(this, verdict))) throw leaseLost(this.jobId)
    } else {
      // Unsure from before the statement is sent: it may have reached the database although its answer did not.
      this.#pledged = verdict
      if (!(await this.#host.store.settleIn(tx, verdict))) throw leaseLost(this.jobId)
    }
    return { state: verdict.state }
  }

  /** Whether a transaction that threw was committed after all: COMMIT's answer may be lost. */
  async #committedAfterAll(error: unknown, isLost: boolean): Promise<boolean> {
    const handBack = this.judge({ kind: 'interrupted', delayMs: 0 })
    if (isLost && this.end()) this.#host.noted(this, handBack, false)
    if (ourTrouble.some((code) => isSignalboxError(error, code))) this.#trouble = error
    // A group has one time-out, and the slow member is unknown: the time-out costs no member an attempt.
    if (this.handler.group > 1 && isSignalboxError(error, 'transaction_timeout')) this.#trouble = error
    if (!isSignalboxError(error, 'commit_unknown')) return false
    const { committed, took } = await this.#host.confirm(this, handBack)
    if (!committed && this.end()) this.#host.noted(this, handBack, took)
    return committed
  }

  /** Where it writes about itself; undefined when it has ended. */
  #openLog(): PendingLog | undefined {
    if (this.#isEnded) return undefined
    this.#log ??= this.#host.logWriter?.open(this)
    return this.#log
  }

  /**
   * The job would be ended twice, and the second end would roll back the first. Also work that swallows this error is
   * rolled back: it meant another end than it would get.
   */
  #mustBeOutsideWork(verb: 'ack' | 'nack' | 'transaction'): void {
    if (this.#workIn === undefined) return
    const error = new SignalboxError(
      'invalid_argument',
      `job.${verb} was called inside job.transaction, which ends job "${this.jobId}" itself. Return the result from its function to complete the job, or throw to fail it. To ack or nack yourself, begin a separate transaction.`,
    )
    refuseCommit(this.#workIn, error)
    throw error
  }

  #mustBeOpen(): void {
    if (!this.#isEnded) return
    throw new SignalboxError(
      'lease_lost',
      `Job "${this.jobId}" has ended already (acked, nacked, timed out, handed back or lost); it cannot be ended again.`,
    )
  }
}
