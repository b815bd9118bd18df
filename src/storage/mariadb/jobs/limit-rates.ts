import { type LimitPlan, wholeQueue } from '../../sql/limit-plan.ts'
import type { Call, Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'

/** What started lately in a queue: of all of it, and of those keys that come into view. */
export class LimitRates {
  readonly #store: Store
  readonly #call: Call
  readonly #queue: string
  readonly #starts = new Map<string, string>()
  readonly #known = new Set<string>([wholeQueue])

  constructor(store: Store, call: Call, queue: string) {
    this.#store = store
    this.#call = call
    this.#queue = queue
  }

  /** By key; more is learned as it goes. */
  get starts(): ReadonlyMap<string, string> {
    return this.#starts
  }

  /** Selects the recorded starts of the queue as a whole; `note` takes the answer. */
  selectQueue(): Statement {
    return this.#select([wholeQueue])
  }

  note(rows: readonly RateRow[]): void {
    for (const { limit_key, starts } of rows) this.#starts.set(limit_key, starts)
  }

  async learn(keys: readonly (string | null)[]): Promise<void> {
    const unknown = [...new Set(keys)].filter((key): key is string => key !== null && !this.#known.has(key))
    if (unknown.length === 0) return
    this.note(await this.#call.rows<RateRow>(...this.#select(unknown)))
    for (const key of unknown) this.#known.add(key)
  }

  /** Writes down what the plan has taken. */
  keep(plan: LimitPlan, now: number): readonly Statement[] {
    const { tables, namespace } = this.#store
    const kept = [...plan.kept()]
    if (kept.length === 0) return []
    return [
      [
        `INSERT INTO ${tables.rate} (namespace, queue, limit_key, starts, started_at) VALUES ?
          ON DUPLICATE KEY UPDATE starts = VALUES(starts), started_at = VALUES(started_at)`,
        [kept.map(([key, starts]) => [namespace, this.#queue, key, starts, now])],
      ],
    ]
  }

  #select(keys: readonly string[]): Statement {
    const { tables, namespace } = this.#store
    return [
      `SELECT limit_key, starts FROM ${tables.rate} WHERE namespace = ? AND queue = ? AND limit_key IN (?)`,
      [namespace, this.#queue, keys],
    ]
  }
}

export interface RateRow {
  readonly limit_key: string
  readonly starts: string
}
