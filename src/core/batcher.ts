/**
 * Collects items that come one by one and runs them in batches, so that many callers share one write or read. Items of
 * one turn go together; items that come while all batches are in flight go in the next. A lone item waits for no clock.
 *
 *     add(item) ──▶ waiting ──start──▶ in flight (at most `maxInFlight` batches of `maxItems`) ──▶ each call's promise
 *
 * Batches begin in the order of their items. `run` decides about time limits and retries.
 */
export interface BatcherOptions<Item, Answer> {
  /** Answers for the items, in their order. When it rejects, so does the call of each item. */
  readonly run: (items: readonly Item[]) => Promise<readonly Answer[]>
  /** The most items of one batch. @default no limit */
  readonly maxItems?: number
  /** The most batches in flight. @default 1 */
  readonly maxInFlight?: number
  /**
   * How long a batch that would begin beside others waits until it is as large as they are. Without this wait, the first
   * items of a turn fill the batches in flight one by one, and all others wait for them. @default 0
   */
  readonly gatherMs?: number
  /** Calls back when a batch may begin. @default setImmediate */
  readonly start?: (begin: () => void) => void
  /** Equal items that wait for the same batch are run once and share the answer. @default false */
  readonly mergesEqual?: boolean
  /** Whether an error is one item's and nothing of the batch was done: then each item is run alone. @default never */
  readonly isItemError?: (error: unknown) => boolean
}

interface Entry<Item, Answer> {
  readonly item: Item
  readonly promise: Promise<Answer>
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** Runs items in batches. */
export class Batcher<Item, Answer> {
  readonly #options: BatcherOptions<Item, Answer>
  readonly #maxItems: number
  readonly #maxInFlight: number
  readonly #gatherMs: number
  readonly #start: (begin: () => void) => void
  #waiting: Entry<Item, Answer>[] = []
  /** The waiting entries by their items, where equal items are merged. */
  readonly #byItem: Map<Item, Entry<Item, Answer>> | undefined
  #inFlight = 0
  #itemsInFlight = 0
  /** Runs while a batch gathers items beside others. */
  #gathering: ReturnType<typeof setTimeout> | undefined
  #isStarting = false

  constructor(options: BatcherOptions<Item, Answer>) {
    this.#options = options
    this.#maxItems = options.maxItems ?? Number.POSITIVE_INFINITY
    this.#maxInFlight = options.maxInFlight ?? 1
    this.#gatherMs = options.gatherMs ?? 0
    this.#start = options.start ?? ((begin) => void setImmediate(begin))
    this.#byItem = options.mergesEqual ? new Map() : undefined
  }

  /** How many items wait for a batch. */
  get waitingCount(): number {
    return this.#waiting.length
  }

  /** No item waits and no batch is in flight. */
  get isIdle(): boolean {
    return this.#inFlight === 0 && this.#waiting.length === 0
  }

  /** Runs the item in one of the next batches. */
  add(item: Item): Promise<Answer> {
    const equal = this.#byItem?.get(item)
    if (equal !== undefined) return equal.promise
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const entry = { item, promise, resolve, reject }
    this.#waiting.push(entry)
    this.#byItem?.set(item, entry)
    this.#schedule()
    return promise
  }

  #schedule(): void {
    if (this.#isStarting || this.#inFlight >= this.#maxInFlight || this.#waiting.length === 0) return
    if (this.#gatherMs > 0 && this.#isSmall()) {
      this.#gathering ??= setTimeout(() => this.#begin(), this.#gatherMs)
      return
    }
    this.#begin()
  }

  /** The next batch has fewer items than those in flight have on average. */
  #isSmall(): boolean {
    const count = Math.min(this.#waiting.length, this.#maxItems)
    return count * this.#inFlight < this.#itemsInFlight
  }

  #begin(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    this.#isStarting = true
    this.#start(() => {
      this.#isStarting = false
      void this.#runBatch(this.#take())
      this.#schedule()
    })
  }

  #take(): readonly Entry<Item, Answer>[] {
    let taken = this.#waiting
    if (taken.length > this.#maxItems) taken = this.#waiting.splice(0, this.#maxItems)
    else this.#waiting = []
    if (this.#byItem !== undefined) for (const { item } of taken) this.#byItem.delete(item)
    return taken
  }

  async #runBatch(batch: readonly Entry<Item, Answer>[]): Promise<void> {
    const { run, isItemError } = this.#options
    this.#inFlight++
    this.#itemsInFlight += batch.length
    try {
      const answers = await run(batch.map(({ item }) => item))
      for (let index = 0; index < batch.length; index++) batch[index]!.resolve(answers[index] as Answer)
    } catch (error) {
      if (batch.length > 1 && isItemError?.(error)) {
        for (const entry of batch) await this.#runBatch([entry])
      } else for (const { reject } of batch) reject(error)
    }
    // In the same turn as the answers: a caller that goes on finds this batch gone.
    this.#inFlight--
    this.#itemsInFlight -= batch.length
    this.#schedule()
  }
}
