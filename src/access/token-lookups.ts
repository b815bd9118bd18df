import { type FreshOptions, inTime } from './fresh-answer.ts'
import type { TokenRecord, TokenStore } from './token-store.ts'

/** How many calls of the store are under way at a time, and how many ids each may ask for. */
const maxUnderWay = 2
const maxIds = 500

/**
 * Looks tokens up by id. Look-ups that come while calls are under way share the next call, in the order they came. So a
 * flood of unknown tokens costs the store two calls at a time, and a valid token among them waits for one call or two.
 */
export class TokenLookups {
  readonly #store: Pick<TokenStore, 'find'>
  readonly #options: Pick<FreshOptions, 'clock' | 'deadlineMs'>
  /** Those that the next call asks for. There are no more than requests in flight. */
  readonly #next = new Map<string, PromiseWithResolvers<TokenRecord | undefined>>()
  #underWay = 0
  #isStarting = false

  constructor(store: Pick<TokenStore, 'find'>, options: Pick<FreshOptions, 'clock' | 'deadlineMs'>) {
    this.#store = store
    this.#options = options
  }

  /** The token with this id, read after this call. Rejects when the store cannot say within the deadline. */
  find(id: string): Promise<TokenRecord | undefined> {
    let waiting = this.#next.get(id)
    if (waiting === undefined) {
      waiting = Promise.withResolvers()
      this.#next.set(id, waiting)
      this.#start()
    }
    const { promise } = waiting
    return inTime(() => promise, this.#options)
  }

  #start(): void {
    if (this.#isStarting || this.#underWay >= maxUnderWay || this.#next.size === 0) return
    this.#isStarting = true
    // A moment later, so that all look-ups of one turn share a call.
    queueMicrotask(() => {
      this.#isStarting = false
      void this.#run(this.#take())
    })
  }

  #take(): Map<string, PromiseWithResolvers<TokenRecord | undefined>> {
    const taken = new Map<string, PromiseWithResolvers<TokenRecord | undefined>>()
    for (const [id, waiting] of this.#next) {
      if (taken.size === maxIds) break
      this.#next.delete(id)
      taken.set(id, waiting)
    }
    return taken
  }

  /** Never rejects. A call that hangs is given up at the deadline, so that it does not hold up the next one. */
  async #run(taken: Map<string, PromiseWithResolvers<TokenRecord | undefined>>): Promise<void> {
    this.#underWay++
    this.#start()
    try {
      const records = await inTime(() => this.#store.find([...taken.keys()]), this.#options)
      const byId = new Map(records.map((record) => [record.id, record]))
      for (const [id, { resolve }] of taken) resolve(byId.get(id))
    } catch (error) {
      for (const { reject } of taken.values()) reject(error)
    } finally {
      this.#underWay--
      this.#start()
    }
  }
}
