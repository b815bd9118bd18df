/**
 * The metrics of a queue. Counts are pushed as they happen; ages are computed on request, so an idle queue has no
 * timer.
 */
import type { Clock } from '../core/clock.ts'
import type { Entry } from './turn.ts'

/** The hooks for counts and times. Every member is optional; metrics of prom-client fit. */
export interface Metrics {
  readonly depth?: { inc(): void; dec(): void } | undefined
  readonly adds?: { inc(): void } | undefined
  readonly retries?: { inc(): void } | undefined
  readonly latency?: { observe(seconds: number): void } | undefined
  readonly workDuration?: { observe(seconds: number): void } | undefined
}

export interface QueueStats {
  name: string
  /** All pending items, including items that were added again while in flight. */
  depth: number
  size: number
  processing: number
  waiting: number
  adds: number
  retries: number
  /** The sum of the ages of all items in flight; only with `metrics`. */
  unfinishedWorkSeconds?: number
  /** The age of the oldest item in flight; only with `metrics`. */
  longestRunningProcessorSeconds?: number
}

/** Measures the turns of a queue with `metrics`. A queue without `metrics` has no meter and no cost. */
export class Meter {
  readonly #metrics: Metrics
  readonly #clock: Clock
  readonly #addedAt = new Map<Entry<unknown>, number>()
  readonly #takenAt = new Map<Entry<unknown>, number>()

  constructor(metrics: Metrics, clock: Clock) {
    this.#metrics = metrics
    this.#clock = clock
  }

  added(entry: Entry<unknown>): void {
    this.#addedAt.set(entry, this.#clock.now())
    this.#call((metrics) => metrics.adds?.inc())
    this.#call((metrics) => metrics.depth?.inc())
  }

  taken(entry: Entry<unknown>): void {
    const now = this.#clock.now()
    const waited = this.#since(this.#addedAt, entry, now)
    this.#takenAt.set(entry, now)
    this.#call((metrics) => metrics.depth?.dec())
    this.#call((metrics) => metrics.latency?.observe(waited))
  }

  done(entry: Entry<unknown>): void {
    const worked = this.#since(this.#takenAt, entry, this.#clock.now())
    this.#call((metrics) => metrics.workDuration?.observe(worked))
  }

  retried(): void {
    this.#call((metrics) => metrics.retries?.inc())
  }

  /** The ages of the items in flight, in seconds. */
  ages(): Pick<QueueStats, 'unfinishedWorkSeconds' | 'longestRunningProcessorSeconds'> {
    const now = this.#clock.now()
    let sum = 0
    let longest = 0
    for (const takenAt of this.#takenAt.values()) {
      const age = Math.max(0, now - takenAt) / 1_000
      sum += age
      longest = Math.max(longest, age)
    }
    return { unfinishedWorkSeconds: sum, longestRunningProcessorSeconds: longest }
  }

  #since(times: Map<Entry<unknown>, number>, entry: Entry<unknown>, now: number): number {
    const then = times.get(entry) ?? now
    times.delete(entry)
    return Math.max(0, now - then) / 1_000
  }

  /** Calls a hook. Its error must not interrupt a step of the queue, and is logged. */
  #call(hook: (metrics: Metrics) => void): void {
    try {
      hook(this.#metrics)
    } catch (error) {
      console.error('A metrics hook of a work queue failed:', error)
    }
  }
}
