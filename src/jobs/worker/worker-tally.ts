import { createEvents, type EventSource, type Events } from '../../core/events.ts'
import { decodeClaimed } from '../decode-job.ts'
import type { ClaimedJob } from '../job.ts'
import type { ClaimedRecord, Verdict } from '../job-store.ts'

/** Counts the work of a worker and emits its events. */
export class Tally {
  readonly counts: WorkerCounts = {
    claimed: 0,
    completed: 0,
    failed: 0,
    handedBack: 0,
    snoozed: 0,
    lost: 0,
    ackMissing: 0,
  }
  readonly #events: Events<WorkerEvents> = createEvents<WorkerEvents>()

  get events(): EventSource<WorkerEvents> {
    return this.#events
  }

  /** A verdict was written (`isWritten`), or its lease was lost. */
  settled(job: ClaimedRecord, verdict: Verdict, isWritten: boolean, error: unknown): void {
    if (!isWritten) this.lost(job)
    else if (verdict.state === 'completed') {
      this.counts.completed++
      this.#emit('completed', () => ({ job: toEventJob(job) }))
    } else if (verdict.snoozeCount > job.snoozeCount) {
      this.counts.snoozed++
      this.#emit('snoozed', () => ({ job: toEventJob(job), delayMs: verdict.delayMs }))
    } else if (verdict.handBackCount > job.handBackCount) {
      this.counts.handedBack++
      this.#emit('handedBack', () => ({ job: toEventJob(job) }))
    } else {
      this.counts.failed++
      this.#emit('failed', () => ({ job: toEventJob(job), error, state: verdict.state }))
    }
  }

  lost(job: ClaimedRecord): void {
    this.counts.lost++
    this.#emit('lost', () => ({ job: toEventJob(job) }))
  }

  late(job: ClaimedRecord, error: unknown): void {
    this.#emit('late', () => ({ job: toEventJob(job), error }))
  }

  stopped(by: WorkerEvents['stopped']['by']): void {
    this.#emit('stopped', () => ({ by }))
  }

  warn(message: string, error?: unknown): void {
    this.#emit('warning', () => (error === undefined ? { message } : { message, error }))
  }

  /** Creates the event only if it has listeners: every job has an event. */
  #emit<Name extends keyof WorkerEvents>(name: Name, event: () => WorkerEvents[Name]): void {
    if (this.#events.listenerCount(name) > 0) this.#events.emit(name, event())
  }
}

/** The base of a worker: listeners are added to the worker itself. */
export abstract class TalliedWorker implements EventSource<WorkerEvents> {
  protected readonly tally: Tally = new Tally()

  get counts(): Readonly<WorkerCounts> {
    return this.tally.counts
  }

  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => unknown,
  ): () => void {
    return this.tally.events.on(name, listener)
  }

  once<Name extends keyof WorkerEvents>(
    name: Name,
    options?: { readonly signal?: AbortSignal },
  ): Promise<WorkerEvents[Name]> {
    return this.tally.events.once(name, options)
  }

  listenerCount(name: keyof WorkerEvents): number {
    return this.tally.events.listenerCount(name)
  }
}

/** The job of an event. A payload that cannot be read, which may be why the job failed, is null. */
function toEventJob(record: ClaimedRecord): ClaimedJob {
  try {
    return decodeClaimed(record)
  } catch {
    return decodeClaimed({ ...record, payload: 'null' })
  }
}

/** Counts since the worker was created. */
export interface WorkerCounts {
  claimed: number
  completed: number
  failed: number
  handedBack: number
  snoozed: number
  lost: number
  ackMissing: number
}

/** What happens to a worker's jobs, for logs, metrics and tests. */
export interface WorkerEvents {
  completed: { readonly job: ClaimedJob }
  /** An attempt failed; `state` is the new state of the job. */
  failed: { readonly job: ClaimedJob; readonly error: unknown; readonly state: Verdict['state'] }
  handedBack: { readonly job: ClaimedJob }
  /** A handler delayed its job by `delayMs`, without using up an attempt. */
  snoozed: { readonly job: ClaimedJob; readonly delayMs: number }
  /** The worker lost the lease, so the store refused the verdict. */
  lost: { readonly job: ClaimedJob }
  /** A handler threw or returned after its job had ended; the result is visible only here. */
  late: { readonly job: ClaimedJob; readonly error: unknown }
  /** The worker stopped: the program called `stop`, or an operator asked for it. */
  stopped: { readonly by: 'program' | 'operator' }
  /** An operator should look: for example a store that does not answer, or a result that cannot be stored. */
  warning: { readonly message: string; readonly error?: unknown }
}
