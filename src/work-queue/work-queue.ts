/**
 * The plain queue: no item in flight twice, no item queued twice.
 *
 *            add                get                 done
 *   (idle) -------> queued ---------> in flight ----------> (idle)
 *                     ^                   |  add              |
 *                     |                   v                   | if added again
 *                     +------------- added again <------------+
 *
 * A key that is queued is in `#pending`, one in flight is in `#inFlight`. If it was added again since, it has a second turn in
 * `#again`, which enters `#pending` when `done` is called. Each call runs to its end, or to a point where everything is
 * consistent, before other code runs. So there is nothing to lock.
 */
import type { Clock } from '../core/clock.ts'
import { consume, iterate } from './consume.ts'
import { KeyIndexes } from './key-indexes.ts'
import {
  type AddOptions,
  priorityOf,
  type QueueOptions,
  type RunOptions,
  resolveQueueOptions,
  resolveRunOptions,
  type SignalOptions,
} from './options.ts'
import { IndexList, type Pending, StoredTurns } from './pending.ts'
import { Meter, type QueueStats } from './queue-meter.ts'
import { FifoQueue } from './queue-stores.ts'
import { LimitWaits, WaitList } from './queue-waits.ts'
import { InFlight, type NoWork, noWork, Turn, type TurnOwner, type Work } from './turn.ts'

/** client-go's plain work queue: fair, stingy, for many producers and consumers. */
export class WorkQueue<T> implements AsyncIterable<T>, AsyncDisposable, Disposable {
  protected readonly clock: Clock
  readonly #name: string
  readonly #key: ((item: T) => unknown) | undefined
  readonly #meter: Meter | undefined
  readonly #owner: TurnOwner<T> = { end: (turn) => this.#end(turn) }

  protected readonly keyIndexes: KeyIndexes
  #pending: Pending<T>
  readonly #inFlight = new InFlight<T>()
  /** By key index: the turn that was added while one is in flight. */
  #again = new Map<number, Turn<T>>()
  #shuttingDown = false
  #addCount = 0
  #retryCount = 0
  #tidying = false

  /** Getters wait only while nothing is queued. */
  readonly #getters = new WaitList<Work<T> | NoWork>()
  readonly #sizeWaits = new LimitWaits()
  readonly #idleWaits = new LimitWaits()
  readonly #drains = new LimitWaits()

  constructor(options: QueueOptions<T> = {}) {
    const { name, key, queue, clock, metrics } = resolveQueueOptions(options)
    this.clock = clock
    this.#name = name
    this.#key = key
    this.keyIndexes = new KeyIndexes(key !== undefined)
    this.#meter = metrics && new Meter(metrics, clock)
    // A meter keeps times by turn, so there must be turns.
    const isPlain = queue === undefined && metrics === undefined
    this.#pending = isPlain ? new IndexList() : new StoredTurns(queue ?? new FifoQueue())
  }

  /** Ready to be taken. Items added again while in flight are left out; `stats().depth` counts them. */
  get size(): number {
    return this.#pending.size
  }

  /** Taken and not yet done. */
  get processing(): number {
    return this.#inFlight.size
  }

  /** Delayed; always 0 on a plain queue. */
  get waiting(): number {
    return 0
  }

  get shuttingDown(): boolean {
    return this.#shuttingDown
  }

  /** Makes an item pending. False: it already was (its payload and priority are renewed), or shut down. */
  add(item: T, options?: AddOptions): boolean {
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.#shuttingDown) return false
    return this.enter(this.keyIndexes.take(this.keyOf(item)), item, priority)
  }

  /** Takes the next item, waiting for one; rejects with the signal's reason when it aborts first. */
  get(options?: SignalOptions): Promise<Work<T> | NoWork> {
    if (options?.signal?.aborted) return Promise.reject(options.signal.reason)
    try {
      const work = this.tryGet()
      return work === undefined ? this.#getters.wait(options?.signal) : Promise.resolve(work)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Takes the next item if there is one now. */
  tryGet(): Work<T> | NoWork | undefined {
    if (this.#pending.size === 0) return this.#shuttingDown ? noWork : undefined
    const turn = this.#pop()
    this.#taken(turn)
    return turn
  }

  /** Ends the turn of an item in flight. False, and no effect: it is not in flight. */
  done(item: T): boolean {
    const turn = this.#findInFlight(item)
    if (turn === undefined) return false
    this.#end(turn)
    return true
  }

  /** Refuses further adds, drops what waits, lets getters go; what is queued is still handed out. */
  shutDown(): void {
    this.close()
    this.#drains.update(0)
  }

  /** Shuts down and waits until nothing is queued or in flight, or until a later `shutDown` ends the wait. */
  async shutDownWithDrain(options: SignalOptions = {}): Promise<void> {
    this.close()
    if (!this.#isIdle() || options.signal?.aborted) await this.#drains.wait(1, options)
  }

  [Symbol.dispose](): void {
    this.shutDown()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.shutDownWithDrain()
  }

  /** Takes item after item until shut down and empty; each is done when the next is asked for. */
  [Symbol.asyncIterator](): AsyncIterableIterator<T> {
    return iterate(this)
  }

  /** Runs the handler for each item, up to `concurrency` at a time, until shut down and empty. */
  async run(handler: (item: T) => unknown, options: RunOptions<T> = {}): Promise<void> {
    await consume(this, handler, resolveRunOptions(options))
  }

  /** Resolves when nothing is queued and nothing in flight. */
  async onIdle(options: SignalOptions = {}): Promise<void> {
    if (!this.#isIdle() || options.signal?.aborted) await this.#idleWaits.wait(1, options)
  }

  /** Resolves when fewer than `limit` items are ready to be taken: back-pressure for producers. */
  async onSizeLessThan(limit: number, options: SignalOptions = {}): Promise<void> {
    if (!(limit > 0)) throw new RangeError(`onSizeLessThan: no size is ever below ${limit}; give 1 or more.`)
    if (this.size >= limit || options.signal?.aborted) await this.#sizeWaits.wait(limit, options)
  }

  stats(): QueueStats {
    return {
      name: this.#name,
      depth: this.size + this.#again.size,
      size: this.size,
      processing: this.processing,
      waiting: this.waiting,
      adds: this.#addCount,
      retries: this.#retryCount,
      ...this.#meter?.ages(),
    }
  }

  protected keyOf(item: T): unknown {
    return this.#key === undefined ? item : this.#key(item)
  }

  /** The key of a key index, from its item. */
  protected keyAt(index: number, item: T): unknown {
    return this.#key === undefined ? item : this.keyIndexes.keyAt(index)
  }

  /** Whether a key index is queued or added again; in flight alone is not pending. */
  protected isPending(index: number): boolean {
    return this.#pending.has(index) || this.#again.has(index)
  }

  /** Whether a delayed add of a key index is waiting; never on a plain queue. */
  protected isWaiting(_index: number): boolean {
    return false
  }

  protected countRetry(): void {
    this.#retryCount++
    this.#meter?.retried()
  }

  /** What both ways to shut down share. */
  protected close(): void {
    this.#shuttingDown = true
    while (!this.#getters.isEmpty) this.#getters.serve(noWork)
  }

  /** Makes an item pending. A store that throws leaves everything as it was. */
  protected enter(index: number, item: T, priority: number): boolean {
    if (priority !== 0) this.#pending = this.#pending.ranked()
    if (this.#pending.has(index)) {
      this.#pending.touch(index, item, priority)
      return false
    }
    if (this.#inFlight.find(index) === undefined) {
      this.#queue(new Turn(index, item, priority))
      return true
    }
    const again = this.#again.get(index)
    if (again !== undefined) {
      again.item = item
      if (priority > again.priority) again.priority = priority
      return false
    }
    const fresh = new Turn(index, item, priority)
    this.#again.set(index, fresh)
    this.#added(fresh)
    return true
  }

  /** Gives up a key index that is not in use. */
  protected leave(index: number, item: T): void {
    if (this.#inFlight.find(index) === undefined && !this.#pending.has(index)) this.#vacate(index, item)
  }

  /** Gives up a key index that is neither queued nor in flight, unless it waits. */
  #vacate(index: number, item: T): void {
    if (!this.#tidying) this.#tidySoon()
    if (this.isWaiting(index)) return
    this.keyIndexes.leave(index, this.keyAt(index, item))
    if (this.keyIndexes.isSparse) this.renumber(this.keyIndexes.renumber())
  }

  /** Key indexes were renumbered. */
  protected renumber(newIndexes: Uint32Array): void {
    this.#pending.renumber(newIndexes)
    this.#inFlight.renumber(newIndexes)
    for (const turn of this.#again.values()) turn.index = newIndexes[turn.index] as number
    this.#again = new Map([...this.#again.values()].map((turn) => [turn.index, turn]))
  }

  /** Gives memory back; only while nothing is queued, in flight or waiting. */
  protected clear(): void {
    this.keyIndexes.clear()
    this.#pending.clear()
    this.#inFlight.clear()
  }

  #findInFlight(item: T): Turn<T> | undefined {
    const { latest } = this.#inFlight
    // Where an item is its own key, the same item has the same key index. Object.is, because === would read both strings
    // from memory; an equal string that is another object is looked up.
    if (latest !== undefined && Object.is(latest.item, item) && this.#key === undefined) return latest
    const index = this.keyIndexes.find(this.keyOf(item))
    return index === undefined ? undefined : this.#inFlight.find(index)
  }

  #queue(turn: Turn<T>): void {
    try {
      this.#pending.push(turn)
    } catch (error) {
      this.leave(turn.index, turn.item)
      throw error
    }
    this.#added(turn)
    if (!this.#getters.isEmpty) this.#serveGetters()
  }

  #added(turn: Turn<T>): void {
    this.#addCount++
    this.#meter?.added(turn)
  }

  #pop(): Turn<T> {
    const turn = this.#pending.pop()
    this.#inFlight.put(turn)
    Turn.begin(turn, this.#owner)
    return turn
  }

  /** Reports a turn that a consumer has taken. Hooks are the caller's code and may call the queue. */
  #taken(turn: Turn<T>): void {
    this.#meter?.taken(turn)
    this.#sizeWaits.update(this.#pending.size)
  }

  #serveGetters(): void {
    while (!this.#getters.isEmpty && this.#pending.size > 0) {
      const turn = this.#pop()
      this.#getters.serve(turn)
      this.#taken(turn)
    }
  }

  /** Ends the turn of an item in flight. */
  #end(turn: Turn<T>): void {
    const { index } = turn
    const again = this.#again.size === 0 ? undefined : this.#again.get(index)
    this.#inFlight.remove(turn)
    if (again !== undefined) this.#queueAgain(again, turn)
    Turn.end(turn)
    // In flight it was not queued besides; see `enter`.
    if (again === undefined) this.#vacate(index, turn.item)
    // From here on everything is consistent: hooks are the caller's code and may call the queue.
    this.#meter?.done(turn)
    if (!this.#getters.isEmpty) this.#serveGetters()
    if (this.#isIdle()) {
      this.#idleWaits.update(0)
      this.#drains.update(0)
    }
  }

  /** Puts the turn that was added again in the place of the one that ends. A store that throws changes nothing. */
  #queueAgain(again: Turn<T>, ending: Turn<T>): void {
    this.#again.delete(again.index)
    try {
      this.#pending.push(again)
    } catch (error) {
      this.#again.set(again.index, again)
      // A store may call the queue before it throws, and the key indexes may have moved.
      ending.index = again.index
      this.#inFlight.put(ending)
      throw error
    }
  }

  /** Whether nothing is queued or in flight; an item added again is in flight too. */
  #isIdle(): boolean {
    return this.#inFlight.size === 0 && this.#pending.size === 0
  }

  #tidySoon(): void {
    this.#tidying = true
    setImmediate(() => this.#tidy()).unref()
  }

  /** Forgets the key indexes that rest, once the burst is over. */
  #tidy(): void {
    this.#tidying = false
    if (!this.#isIdle() || this.waiting > 0) return
    this.clear()
  }
}
