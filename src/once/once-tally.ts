import { createEvents, type EventSource, type Events } from '../core/events.ts'
import type { GuardStanding } from './guard-store.ts'

/** Counts since the box was opened. The first five have names that operators of monitors know. */
export interface OnceStats {
  /** Successful claims of tasks. */
  readonly lock_acquired_count: number
  /** Claims of tasks that another caller held. */
  readonly lock_rejected_count: number
  /** Claims of known keys: running, done or stuck. */
  readonly duplicate_events: number
  /** Claims of new keys. */
  readonly unique_events: number
  /** Repeats within an open window. They were not notified. */
  readonly notification_dedup: number
  /** Answers that were given without the store. */
  readonly degraded: number
  /**
   * Answers by space and status: `once`, `processing` and other spaces with `run`, `running`, `done`, `stuck`,
   * `mismatch`; `seen` with `seen` and `unseen`; `degraded` with `open` and `closed`.
   */
  readonly answers: Readonly<Record<string, Readonly<Record<string, number>>>>
}

/** The events of a tally. */
export interface OnceEvents {
  claimed: { readonly space: string; readonly key: string; readonly status: GuardStanding['status'] }
  seen: { readonly subject: readonly string[]; readonly seen: boolean }
  /** The store did not answer, so the policy `whenDown` decided. */
  degraded: { readonly call: string; readonly policy: 'open' | 'closed'; readonly error: unknown }
}

/** Spaces whose claims are locks of tasks. Keys of all other spaces are events. */
const lockSpaces: readonly string[] = ['processing', 'monitor.task']

/** Counts answers and emits events. The modules that answer share one. */
export class OnceTally {
  readonly #counts = {
    lock_acquired_count: 0,
    lock_rejected_count: 0,
    duplicate_events: 0,
    unique_events: 0,
    notification_dedup: 0,
    degraded: 0,
  }
  /** Grows with spaces and statuses, never with keys. */
  readonly #answers = new Map<string, Map<string, number>>()
  readonly #events: Events<OnceEvents> = createEvents<OnceEvents>()

  get events(): EventSource<OnceEvents> {
    return this.#events
  }

  /** Counts the answer to a claim. */
  claimed(space: string, key: string, standing: Pick<GuardStanding, 'status'> & { attempt?: number }): void {
    const { status, attempt = 1 } = standing
    this.#answer(space, status)
    if (lockSpaces.includes(space)) {
      if (status === 'run') this.#counts.lock_acquired_count++
      if (status === 'running') this.#counts.lock_rejected_count++
    } else if (status === 'run') {
      // A later attempt is neither a new key nor a duplicate.
      if (attempt === 1) this.#counts.unique_events++
    } else if (status !== 'mismatch') this.#counts.duplicate_events++
    this.#emit('claimed', () => ({ space, key, status }))
  }

  /** Counts the answer to a sighting. */
  seen(subject: readonly string[], seen: boolean): void {
    this.#answer('seen', seen ? 'seen' : 'unseen')
    if (seen) this.#counts.notification_dedup++
    this.#emit('seen', () => ({ subject, seen }))
  }

  /** Counts answers that were given without the store. */
  degraded(call: string, policy: 'open' | 'closed', error: unknown, count = 1): void {
    this.#counts.degraded += count
    this.#answer('degraded', policy, count)
    this.#emit('degraded', () => ({ call, policy, error }))
  }

  stats(): OnceStats {
    const answers = Array.from(this.#answers, ([space, statuses]) => [space, Object.fromEntries(statuses)])
    return { ...this.#counts, answers: Object.fromEntries(answers) }
  }

  #answer(space: string, status: string, count = 1): void {
    const statuses = this.#answers.get(space) ?? new Map<string, number>()
    this.#answers.set(space, statuses.set(status, (statuses.get(status) ?? 0) + count))
  }

  /** Creates the event only if there is a listener, because every key emits one. */
  #emit<Name extends keyof OnceEvents>(name: Name, event: () => OnceEvents[Name]): void {
    if (this.#events.listenerCount(name) > 0) this.#events.emit(name, event())
  }
}
