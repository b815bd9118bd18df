/**
 * The delaying queue: an item that is added now can become pending later. It has one heap, and one timer while items
 * wait. When the timer fires, all due items enter the queue in due order, as with `add`.
 */

import { type HeapItem, PositionHeap } from '../core/position-heap.ts'
import { KeyMap } from './key-map.ts'
import { type AddAfterOptions, type AddOptions, type DelayingQueueOptions, priorityOf } from './options.ts'
import { WorkQueue } from './work-queue.ts'

/** A delayed add, at most one per key. The heap orders it by its due time. */
interface DelayedAdd<T> extends HeapItem {
  readonly key: unknown
  item: T
  priority: number
}

/** The longest time of a timer. It limits the effect of a stepped clock, and allows delays that a timer cannot have. */
const longestTimerMs = 10_000

/** client-go's delaying queue. Of several delayed adds of one item the earliest counts. */
export class DelayingQueue<T> extends WorkQueue<T> {
  readonly #coalesce: boolean
  readonly #unref: boolean
  #delayed = new KeyMap<DelayedAdd<T>>()
  #heap = new PositionHeap<DelayedAdd<T>>()
  #timer: unknown
  /** When the armed timer fires; Infinity while none is armed. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(options: DelayingQueueOptions<T> = {}) {
    super(options)
    this.#coalesce = options.coalesce ?? false
    this.#unref = options.unref ?? false
  }

  override get waiting(): number {
    return this.#delayed.size
  }

  override add(item: T, options?: AddOptions): boolean {
    if (this.#delayed.size === 0) return super.add(item, options)
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.shuttingDown) return false
    const key = this.keyOf(item)
    const delayed = this.#delayed.get(key)
    if (delayed !== undefined) {
      if (this.#coalesce) return this.#useUp(delayed, item, priority)
      // The waiting add remains, but it must not restore an older payload when it is due.
      delayed.item = item
    }
    return this.enter(key, item, priority)
  }

  /** Makes an item pending `ms` from now. True: the add is new, even if the item is queued. False also after shutdown. */
  addAfter(item: T, ms: number, options?: AddAfterOptions): boolean {
    if (typeof ms !== 'number' || Number.isNaN(ms)) {
      throw new RangeError(`addAfter: the delay is ${String(ms)}; give milliseconds, Infinity for never.`)
    }
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.shuttingDown) return false
    const fresh = this.#addLater(item, ms, priority, options?.replace ?? false)
    // As in client-go, every delayed add counts as a retry, whether or not the item failed.
    this.countRetry()
    return fresh
  }

  /** Cancels a waiting add. False: the item was not waiting. */
  cancelAfter(item: T): boolean {
    const delayed = this.#delayed.get(this.keyOf(item))
    if (delayed === undefined) return false
    this.#stopWaiting(delayed)
    return true
  }

  /** When a waiting item is due, by the queue's clock. */
  readyAt(item: T): number | undefined {
    return this.#delayed.get(this.keyOf(item))?.at
  }

  protected override close(): void {
    super.close()
    this.#delayed = new KeyMap()
    this.#heap = new PositionHeap()
    this.#disarm()
  }

  #addLater(item: T, ms: number, priority: number, replace: boolean): boolean {
    const key = this.keyOf(item)
    if (this.#coalesce && this.isPending(key)) return this.enter(key, item, priority)
    const delayed = this.#delayed.get(key)
    if (ms <= 0) {
      // An `add`, except that `replace` moves the waiting add to this moment.
      return delayed !== undefined && replace
        ? this.#useUp(delayed, item, priority)
        : this.add(item, { priority })
    }
    const dueAt = this.clock.now() + ms
    if (delayed === undefined) {
      this.#wait({ key, item, priority, at: 0, order: 0, position: -1 }, dueAt)
    } else {
      delayed.item = item
      if (priority > delayed.priority) delayed.priority = priority
      if (replace || dueAt < delayed.at) this.#heap.set(delayed, dueAt)
    }
    this.#arm()
    return delayed === undefined
  }

  #wait(delayed: DelayedAdd<T>, dueAt: number): void {
    this.#delayed.enter(delayed.key, delayed)
    this.#heap.set(delayed, dueAt)
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp({ key, priority: waitingPriority }: DelayedAdd<T>, item: T, priority: number): boolean {
    const entered = this.enter(key, item, Math.max(priority, waitingPriority))
    // Looked up again, because a metrics hook may have called the queue meanwhile.
    const present = this.#delayed.get(key)
    if (present !== undefined) this.#stopWaiting(present)
    return entered
  }

  #stopWaiting(delayed: DelayedAdd<T>): void {
    this.#delayed.leave(delayed.key)
    this.#heap.clear(delayed)
    if (this.#delayed.size === 0) this.#disarm()
  }

  /** Sets the timer if it would fire too late, or not at all. */
  #arm(): void {
    const dueAt = this.#heap.first?.at ?? Number.POSITIVE_INFINITY
    // Items that are never due need no timer and must not keep the process alive.
    if (dueAt >= this.#timerAt) return
    const now = this.clock.now()
    const timerAt = Math.min(dueAt, now + longestTimerMs)
    this.#disarm()
    this.#timerAt = timerAt
    this.#timer = this.clock.setTimeout(() => this.#fire(), Math.max(0, timerAt - now))
    if (this.#unref) (this.#timer as { unref?(): void } | undefined)?.unref?.()
  }

  #disarm(): void {
    if (this.#timerAt !== Number.POSITIVE_INFINITY) this.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    this.#timerAt = Number.POSITIVE_INFINITY
  }

  #fire(): void {
    this.#timer = undefined
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = this.clock.now()
    for (let next = this.#heap.first; next !== undefined && next.at <= now; next = this.#heap.first)
      this.#enterDue(next, now)
    this.#arm()
  }

  #enterDue(delayed: DelayedAdd<T>, now: number): void {
    const { key, item, priority } = delayed
    this.#delayed.leave(key)
    this.#heap.clear(delayed)
    try {
      this.enter(key, item, priority)
    } catch (error) {
      // Only the caller's store can throw here, and no caller can catch it. The item waits again.
      this.#wait(delayed, now + longestTimerMs)
      console.error('A work queue could not add a delayed item that is due; it tries again:', error)
    }
  }
}
