import { Batcher } from '../core/batcher.ts'
import { type FreshOptions, inTime } from './fresh-answer.ts'
import type { TokenRecord, TokenStore } from './token-store.ts'

/**
 * Looks tokens up by id. Look-ups that come while calls are in flight share the next call, in the order they came. So a
 * flood of unknown tokens costs the store two calls at a time, and a valid token among them waits for one call or two.
 */
export class TokenLookups {
  readonly #options: Pick<FreshOptions, 'clock' | 'deadlineMs'>
  readonly #batcher: Batcher<string, TokenRecord | undefined>

  constructor(store: Pick<TokenStore, 'find'>, options: Pick<FreshOptions, 'clock' | 'deadlineMs'>) {
    this.#options = options
    this.#batcher = new Batcher({
      maxItems: 500,
      maxInFlight: 2,
      start: queueMicrotask,
      mergesEqual: true,
      // A call that hangs is given up at the deadline, so that it does not hold up the next one.
      async run(ids) {
        const records = await inTime(() => store.find(ids), options)
        const byId = new Map(records.map((record) => [record.id, record]))
        return ids.map((id) => byId.get(id))
      },
    })
  }

  /** The token with this id, read after this call. Rejects when the store does not answer within the deadline. */
  find(id: string): Promise<TokenRecord | undefined> {
    return inTime(() => this.#batcher.add(id), this.#options)
  }
}
