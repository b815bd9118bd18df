/**
 * The plain queue: no item in flight twice, no item queued twice.
 *
 *            add                get                 done
 *   (idle) -------> queued ---------> in flight ----------> (idle)
 *                     ^                   |  add              |
 *                     |                   v                   | if added again
 *                     +------------- added again <------------+
 *
 * Each key that is queued or in flight has one turn in `#turns`. A key that is added again while in flight has a second
 * turn, the `next` of the first. When `done` is called, the second turn replaces the first and enters the store. Other
 * code runs only after a call has ended, or at points where the state is consistent. So no lock is needed.
 */
import { type Clock, systemClock } from '../core/clock.ts'
import { consume, iterate } from './consume.ts'
import { KeyMap } from './key-map.ts'
import {
  type AddOptions,
  priorityOf,
  type QueueOptions,
  type RunOptions,
  resolveRunOptions,
  type SignalOptions,
} from './options.ts'
import { Meter, type QueueStats } from './queue-meter.ts'
import { FifoQueue, type Queue } from './queue-stores.ts'
import { LimitWaits, WaitList } from './queue-waits.ts'
import { type NoWork, noWork, Turn, type TurnOwner, type Work } from './turn.ts'

/** client-go's plain work queue: fair, stingy, for many producers and consumers. */
export class WorkQueue<T> implements AsyncIterable<T>, AsyncDisposable, Disposable {
  protected readonly clock: Clock
  readonly #name: string
  readonly #key: ((item: T) => unknown) | undefined
  readonly #meter: Meter | undefined
  readonly #owner: TurnOwner<T> = { end: (turn) => this.#end(turn) }

  /** By key: the turn that is queued or in flight. */
  readonly #turns = new KeyMap<Turn<T>>()
  /** The queued turns, in the order in which they are taken. */
  readonly #store: Queue<T>
  #processing = 0
  /** How many turns in flight have a next one. */
  #againCount = 0
  #shuttingDown = false
  #addCount = 0
  #retryCount = 0

  /** Getters wait only while nothing is queued. */
  readonly #getters = new WaitList<Work<T> | NoWork>()
  readonly #sizeWaits = new LimitWaits()
  readonly #idleWaits = new LimitWaits()
  readonly #drains = new LimitWaits()

  constructor(options: QueueOptions<T> = {}) {
    const { name = '', key, queue = new FifoQueue<T>(), clock = systemClock, metrics } = options
    this.clock = clock
    this.#name = name
    this.#key = key
    this.#meter = metrics && new Meter(metrics, clock)
    this.#store = queue
  }

  /** How many items are queued. Items added again while in flight are not included; `stats().depth` counts them. */
  get size(): number {
    return this.#store.size
  }

  /** How many items are in flight. */
  get processing(): number {
    return this.#processing
  }

  /** How many items are delayed; always 0 on a plain queue. */
  get waiting(): number {
    return 0
  }

  get shuttingDown(): boolean {
    return this.#shuttingDown
  }

  /**
   * Makes an item pending. False: it already was, so its payload and priority are updated; or the queue is shut down.
   */
  add(item: T, options?: AddOptions): boolean {
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.#shuttingDown) return false
    return this.enter(this.keyOf(item), item, priority)
  }

  /** Takes the next item, and waits for one if necessary. Rejects with the signal's reason if it aborts first. */
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
    if (this.#store.size === 0) return this.#shuttingDown ? noWork : undefined
    const turn = this.#pop()
    this.#taken(turn)
    return turn
  }

  /** Ends the turn of an item in flight. False: the item is not in flight. */
  done(item: T): boolean {
    const turn = this.#turns.get(this.keyOf(item))
    if (turn === undefined || !Turn.isInFlight(turn)) return false
    this.#end(turn)
    return true
  }

  /** Refuses further adds, drops delayed items, and ends waiting getters. Queued items can still be taken. */
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

  /** Takes items until the queue is shut down and empty. An item is done when the caller requests the next one. */
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

  /** Resolves when fewer than `limit` items are queued: back-pressure for producers. */
  async onSizeLessThan(limit: number, options: SignalOptions = {}): Promise<void> {
    if (!(limit > 0)) throw new RangeError(`onSizeLessThan: no size is ever below ${limit}; give 1 or more.`)
    if (this.size >= limit || options.signal?.aborted) await this.#sizeWaits.wait(limit, options)
  }

  stats(): QueueStats {
    return {
      name: this.#name,
      depth: this.size + this.#againCount,
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

  /** Whether a key is queued, or added again while in flight. */
  protected isPending(key: unknown): boolean {
    const turn = this.#turns.get(key)
    return turn !== undefined && (!Turn.isInFlight(turn) || turn.next !== undefined)
  }

  protected countRetry(): void {
    this.#retryCount++
    this.#meter?.retried()
  }

  /** The common part of both shutdowns. */
  protected close(): void {
    this.#shuttingDown = true
    while (!this.#getters.isEmpty) this.#getters.serve(noWork)
  }

  /** Makes an item pending. If the store throws, nothing changes. */
  protected enter(key: unknown, item: T, priority: number): boolean {
    const turn = this.#turns.get(key)
    if (turn === undefined) {
      this.#queue(new Turn(key, item, priority))
      return true
    }
    if (!Turn.isInFlight(turn)) {
      this.#renew(turn, item, priority)
      return false
    }
    if (turn.next !== undefined) {
      turn.next.item = item
      if (priority > turn.next.priority) turn.next.priority = priority
      return false
    }
    turn.next = new Turn(key, item, priority)
    this.#againCount++
    this.#added(turn.next)
    return true
  }

  #queue(turn: Turn<T>): void {
    // Recorded first, so that a store that calls the queue finds the turn.
    this.#turns.enter(turn.key, turn)
    try {
      this.#store.push(turn)
    } catch (error) {
      this.#turns.leave(turn.key)
      throw error
    }
    this.#added(turn)
    if (!this.#getters.isEmpty) this.#serveGetters()
  }

  /** Updates a queued item that was added again. */
  #renew(turn: Turn<T>, item: T, priority: number): void {
    const { item: previousItem, priority: previousPriority } = turn
    turn.item = item
    if (priority > previousPriority) turn.priority = priority
    try {
      this.#store.touch(turn, previousPriority)
    } catch (error) {
      turn.item = previousItem
      turn.priority = previousPriority
      throw error
    }
  }

  #added(turn: Turn<T>): void {
    this.#addCount++
    this.#meter?.added(turn)
  }

  #pop(): Turn<T> {
    const turn = this.#store.pop() as Turn<T>
    Turn.begin(turn, this.#owner)
    this.#processing++
    return turn
  }

  /** Reports a taken turn. Hooks are the caller's code and may call the queue. */
  #taken(turn: Turn<T>): void {
    this.#meter?.taken(turn)
    this.#sizeWaits.update(this.#store.size)
  }

  #serveGetters(): void {
    while (!this.#getters.isEmpty && this.#store.size > 0) {
      const turn = this.#pop()
      this.#getters.serve(turn)
      this.#taken(turn)
    }
  }

  /** Ends the turn of an item in flight. */
  #end(turn: Turn<T>): void {
    if (turn.next === undefined) this.#turns.leave(turn.key)
    else this.#queueNext(turn, turn.next)
    Turn.end(turn)
    this.#processing--
    // From here the state is consistent, because hooks are the caller's code and may call the queue.
    this.#meter?.done(turn)
    if (!this.#getters.isEmpty) this.#serveGetters()
    if (this.#isIdle()) {
      this.#idleWaits.update(0)
      this.#drains.update(0)
    }
  }

  /** Replaces the ending turn by the one that was added again. If the store throws, nothing changes. */
  #queueNext(ending: Turn<T>, next: Turn<T>): void {
    ending.next = undefined
    this.#againCount--
    this.#turns.set(next.key, next)
    try {
      this.#store.push(next)
    } catch (error) {
      this.#turns.set(next.key, ending)
      ending.next = next
      this.#againCount++
      throw error
    }
  }

  /** Whether nothing is queued or in flight; an item added again is in flight too. */
  #isIdle(): boolean {
    return this.#processing === 0 && this.#store.size === 0
  }
}
