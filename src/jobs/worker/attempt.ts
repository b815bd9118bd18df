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

/** What an attempt needs from its worker. */
export interface AttemptHost {
  readonly store: JobStore
  readonly groups: TransactionGroups
  /** Measures run times and time-outs. */
  readonly clock: Clock
  readonly leaseMs: number
  /** For transactions without their own time-out. 0: the store's default. */
  readonly transactionTimeoutMs: number
  /** Writes log lines and progress. Undefined: the worker does not keep them. */
  readonly logWriter: LogWriter | undefined
  /** Writes a verdict in a batch with others. Answers whether the store wrote it. */
  settle(attempt: Attempt, verdict: Verdict): Promise<boolean>
  /** The answer to COMMIT was lost: asks the store whether the attempt ended, and writes this verdict if not. */
  confirm(
    attempt: Attempt,
    verdict: Verdict,
  ): Promise<{ readonly committed: boolean; readonly written: boolean }>
  /** Records a verdict that did not go through `settle`: it was committed with the user's rows, or lost with them. */
  recorded(attempt: Attempt, verdict: Verdict, written: boolean): void
}

/** Store errors that are not the handler's fault: the job is handed back and keeps its attempt. */
const storeErrorCodes = ['transaction_conflict', 'store_busy', 'store_unavailable', 'commit_unknown'] as const
const storeErrorDelayMs = 500

/**
 * One claimed job in a worker, from its claim to the verdict. The first event that leads to `ended` ends it, and later
 * events do nothing. An unconfirmed attempt is still open:
 *
 *     open ──┬─ transaction committed ──────────▶ ended        (store wrote it with the user's rows)
 *            ├─ ack/nack in the user's own tx ──▶ unconfirmed  (counts if the user commits; checked after the handler)
 *            ├─ ack/nack, return, throw ────────▶ ended        (written by the completer)
 *            ├─ timeout, hand-back ─────────────▶ ended
 *            └─ lease lost ─────────────────────▶ ended        (nothing may be written)
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
  #unconfirmedVerdict: Verdict | undefined
  #transaction: Promise<unknown> | undefined
  /** The transaction whose work runs now. Only this transaction may end the job. */
  #workTransaction: StoreTransaction | undefined
  #isCancelled = false
  #storeError: unknown
  #log: PendingLog | undefined
  /** The lease is valid at least until this time of the process's monotonic clock. */
  leaseUntil: number
  /** The timer of the job's time-out, if any. */
  timer: unknown
  /** The contention ticket of the attempt's wait for a slot and of its run. */
  ticket = 0
  /** The span of the handler's call, if tracing is on. */
  span: RunSpan | undefined
  /** The batch in which the attempt runs, if any. */
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

  /** The verdict is chosen or written, or the lease is lost: no other verdict may follow. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** The verdict of an ack or nack in the user's transaction, which may or may not have committed. */
  get unconfirmedVerdict(): Verdict | undefined {
    return this.#unconfirmedVerdict
  }

  /** The `job.transaction` that runs now. Its commit checks the lease. */
  get openTransaction(): Promise<unknown> | undefined {
    return this.#transaction
  }

  get isAborted(): boolean {
    return this.#abortReason !== undefined
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Created at first use: most handlers never use it. */
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
    this.batch?.attemptAborted(reason)
  }

  cancel(): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    this.abort(new DOMException(`Job "${this.jobId}" was cancelled.`, 'AbortError'))
  }

  /** Ends the attempt: no new write may begin. True for the first caller only. */
  end(): boolean {
    if (this.#isEnded) return false
    this.#isEnded = true
    if (this.timer !== undefined) this.#host.clock.clearTimeout(this.timer)
    // Close the log before the end is written, so that a reader of the end finds the last lines.
    if (this.#log !== undefined) this.#host.logWriter?.close(this.#log)
    return true
  }

  /** Creates the job that the handler gets. Throws `undecodable` when the payload cannot be read. */
  begin(): RunningJob {
    const job = new RunningJob(this, this.record)
    this.#begunAt = this.#host.clock.now()
    return job
  }

  /** Calls the handler. Throws what `begin` throws. */
  run(): unknown {
    // The attempt is the handler's context, so that its `signal` is created only if the handler reads it.
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

  /** The verdict on the outcome of the handler. */
  judge(outcome: Outcome): Verdict {
    const ranMs = this.#begunAt === 0 ? null : Math.round(this.#host.clock.now() - this.#begunAt)
    return judge(this.record, outcome, ranMs)
  }

  /**
   * The outcome of a throw: cancelled after a cancellation request, interrupted after a store error, else a failure.
   */
  outcomeOf(error: unknown): Outcome {
    if (this.#isCancelled) return { kind: 'cancelled', error: encodeError(error) }
    if (error !== undefined && error === this.#storeError)
      return { kind: 'interrupted', delayMs: storeErrorDelayMs }
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
    this.#throwIfEnded()
    this.#throwIfInWork('transaction')
    let result!: Result
    let verdict!: Verdict
    // The work may throw a `lease_lost` of another job. Only the store's error is about this lease.
    const own: { error?: unknown } = {}
    const step = async (tx: StoreTransaction): Promise<Verdict> => {
      this.#workTransaction = tx
      try {
        result = await work(tx)
        // A call in this transaction failed, and the work caught the error.
        throwIfRefused(tx)
      } catch (error) {
        own.error = error
        throw error
      } finally {
        this.#workTransaction = undefined
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
      if (!(await this.#resolveFailedTransaction(error, isLost))) throw error
    }
    if (this.end()) this.#host.recorded(this, verdict, true)
    return result
  }

  async ack(options: AckOptions = {}): Promise<Ended> {
    this.#throwIfInWork('ack')
    return this.#endIn(options.tx, resolveAck(options))
  }

  async nack(options: NackOptions = {}): Promise<Ended> {
    this.#throwIfInWork('nack')
    return this.#endIn(options.tx, resolveNack(options))
  }

  /** If the attempt has ended already, the ack or nack throws and the caller's transaction must not commit. */
  #endIn(tx: unknown, ending: Ending): Promise<Ended> {
    return inCallerTransaction(this.#host.store, tx, () => this.#write(ending, tx))
  }

  async #write({ outcome, ranMs }: Ending, tx: unknown): Promise<Ended> {
    this.#throwIfEnded()
    const verdict = ranMs === null ? this.judge(outcome) : judge(this.record, outcome, ranMs)
    if (tx === undefined) {
      this.end()
      if (!(await this.#host.settle(this, verdict))) throw leaseLost(this.jobId)
    } else {
      // Set before the statement is sent: it may reach the database although its answer is lost.
      this.#unconfirmedVerdict = verdict
      if (!(await this.#host.store.settleIn(tx, verdict))) throw leaseLost(this.jobId)
    }
    return { state: verdict.state }
  }

  /**
   * Handles the error of a transaction. Returns whether the transaction committed all the same: the answer to COMMIT may
   * be lost. Ends the attempt if its lease is lost, or if the answer was lost and the transaction did not commit; then
   * the store writes a hand-back.
   */
  async #resolveFailedTransaction(error: unknown, isLost: boolean): Promise<boolean> {
    const handBack = this.judge({ kind: 'interrupted', delayMs: 0 })
    if (isLost && this.end()) this.#host.recorded(this, handBack, false)
    if (storeErrorCodes.some((code) => isSignalboxError(error, code))) this.#storeError = error
    // A group has one time-out and does not know its slow member, so the time-out costs no member an attempt.
    if (this.handler.group > 1 && isSignalboxError(error, 'transaction_timeout')) this.#storeError = error
    if (!isSignalboxError(error, 'commit_unknown')) return false
    const { committed, written } = await this.#host.confirm(this, handBack)
    if (!committed && this.end()) this.#host.recorded(this, handBack, written)
    return committed
  }

  /** The attempt's log; undefined after its end. */
  #openLog(): PendingLog | undefined {
    if (this.#isEnded) return undefined
    this.#log ??= this.#host.logWriter?.open(this)
    return this.#log
  }

  /**
   * An ack, nack or transaction inside the work would end the job twice, and the second end would roll back the first.
   * If the work catches this error, the transaction rolls back all the same: the job would get another end than
   * intended.
   */
  #throwIfInWork(verb: 'ack' | 'nack' | 'transaction'): void {
    if (this.#workTransaction === undefined) return
    const error = new SignalboxError(
      'invalid_argument',
      `job.${verb} was called inside job.transaction, which ends job "${this.jobId}" itself. Return the result from its function to complete the job, or throw to fail it. To ack or nack yourself, begin a separate transaction.`,
    )
    refuseCommit(this.#workTransaction, error)
    throw error
  }

  #throwIfEnded(): void {
    if (!this.#isEnded) return
    throw new SignalboxError(
      'lease_lost',
      `Job "${this.jobId}" has ended already (acked, nacked, timed out, handed back or lost); it cannot be ended again.`,
    )
  }
}
