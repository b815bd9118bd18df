import type { QueueLimits } from '../../jobs/index.ts'
import { LimitPlan, wholeQueue } from '../sql/limit-plan.ts'

/** The limits of queues, and the recent starts in queues with a rate limit. */
export class MemoryLimits {
  readonly #limits = new Map<string, QueueLimits>()
  /** By queue and then key, in the form of `LimitPlan`. */
  readonly #starts = new Map<string, Map<string, string>>()

  get queues(): Iterable<string> {
    return this.#limits.keys()
  }

  of(queue: string): QueueLimits | null {
    return this.#limits.get(queue) ?? null
  }

  /** Sets the limits. Null removes them and the recorded starts. */
  set(queue: string, limits: QueueLimits | null): void {
    if (limits !== null) {
      this.#limits.set(queue, limits)
      return
    }
    this.#limits.delete(queue)
    this.#starts.delete(queue)
  }

  /** The free slots of a queue while these jobs run; undefined: the queue has no limits. */
  plan(
    queue: string,
    running: Iterable<{ readonly queue: string; readonly limitKey: string | null }>,
    now: number,
  ): LimitPlan | undefined {
    const limits = this.#limits.get(queue)
    if (!limits) return undefined
    const counts = new Map<string, number>()
    for (const row of running) {
      if (row.queue !== queue) continue
      const key = row.limitKey ?? wholeQueue
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    return new LimitPlan({ now, limits, running: counts, starts: this.#starts.get(queue) ?? new Map() })
  }

  /** Records the starts of this plan. */
  keep(queue: string, plan: LimitPlan): void {
    const starts = this.#starts.get(queue) ?? new Map<string, string>()
    for (const [key, kept] of plan.kept()) starts.set(key, kept)
    this.#starts.set(queue, starts)
  }
}
