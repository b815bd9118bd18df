import { createEvents, type EventSource, type Events } from '../../core/events.ts'
import { decodeClaimed } from '../decode-job.ts'
import type { ClaimedJob } from '../job.ts'
import type { ClaimedRecord, Verdict } from '../job-store.ts'
import type { WorkerCounts, WorkerEvents } from './worker-events.ts'

/** Counts what a worker does and tells whoever listens. */
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

  warn(message: string, error?: unknown): void {
    this.#tell('warning', () => (error === undefined ? { message } : { message, error }))
  }

  /** The event is made only when somebody listens: there is one for every job. */
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
