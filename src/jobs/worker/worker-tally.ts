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

  /** A verdict was written, or its lease was lost. */
  settled(job: ClaimedRecord, verdict: Verdict, took: boolean, error: unknown): void {
    if (!took) this.lost(job)
    else if (verdict.state === 'completed') {
      this.counts.completed++
      this.#tell('completed', () => ({ job: shown(job) }))
    } else if (verdict.snoozeCount > job.snoozeCount) {
      this.counts.snoozed++
      this.#tell('snoozed', () => ({ job: shown(job), delayMs: verdict.delayMs }))
    } else if (verdict.handBackCount > job.handBackCount) {
      this.counts.handedBack++
      this.#tell('handedBack', () => ({ job: shown(job) }))
    } else {
      this.counts.failed++
      this.#tell('failed', () => ({ job: shown(job), error, state: verdict.state }))
    }
  }

  lost(job: ClaimedRecord): void {
    this.counts.lost++
    this.#tell('lost', () => ({ job: shown(job) }))
  }

  late(job: ClaimedRecord, error: unknown): void {
    this.#tell('late', () => ({ job: shown(job), error }))
  }

  stopped(by: WorkerEvents['stopped']['by']): void {
    this.#tell('stopped', () => ({ by }))
  }

  warn(message: string, error?: unknown): void {
    this.#tell('warning', () => (error === undefined ? { message } : { message, error }))
  }

  /** Creates the event only for listeners: there is one for every job. */
  #tell<Name extends keyof WorkerEvents>(name: Name, event: () => WorkerEvents[Name]): void {
    if (this.#events.listenerCount(name) > 0) this.#events.emit(name, event())
  }
}

/** A worker that is its own emitter: listeners are added to it directly. */
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

/** As its handler sees it; a payload that cannot be read, which may be why it failed, is shown as null. */
function shown(record: ClaimedRecord): ClaimedJob {
  try {
    return decodeClaimed(record)
  } catch {
    return decodeClaimed({ ...record, payload: 'null' })
  }
}

/** What a worker has done since it was made. */
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
  /** An attempt failed; `state` says what became of the job. */
  failed: { readonly job: ClaimedJob; readonly error: unknown; readonly state: Verdict['state'] }
  handedBack: { readonly job: ClaimedJob }
  /** A handler put its job off by this time, without using up an attempt. */
  snoozed: { readonly job: ClaimedJob; readonly delayMs: number }
  /** The lease was not ours any more; whatever the handler did, nothing was written. */
  lost: { readonly job: ClaimedJob }
  /** A handler threw or returned after its job had ended; the result is visible only here. */
  late: { readonly job: ClaimedJob; readonly error: unknown }
  /** It has stopped: the program called `stop`, or an operator asked for it. */
  stopped: { readonly by: 'program' | 'operator' }
  /** Something that a person should know: a store that does not answer, a result that cannot be kept. */
  warning: { readonly message: string; readonly error?: unknown }
}
