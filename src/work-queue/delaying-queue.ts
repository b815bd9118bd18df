/**
 * The delaying queue: an item may be added now and become pending later. It has one heap and one timer, and no timer when
 * nothing waits. When the timer fires, all that is due by then enters the queue in due order, as any `add` would.
 */

import { type AddAfterOptions, type AddOptions, type DelayingQueueOptions, priorityOf } from './options.ts'
import { DelayedItems } from './timer-heap.ts'
import { WorkQueue } from './work-queue.ts'

/** The longest a timer is set for: a stepped clock is noticed within it, and no delay is too long for a timer. */
const longestTimerMs = 10_000

/** client-go's delaying queue: of several delayed adds of one item the earliest stands. */
export class DelayingQueue<T> extends WorkQueue<T> {
  readonly #coalesce: boolean
  readonly #unref: boolean
  readonly #delayed = new DelayedItems<T>()
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
    const index = this.keyIndexes.take(this.keyOf(item))
    if (this.#delayed.has(index)) {
      if (this.#coalesce) return this.#useUp(index, item, priority)
      // The waiting add stays in force, but it must not bring an older payload back when it falls due.
      this.#delayed.renew(index, item)
    }
    return this.enter(index, item, priority)
  }

  /** Makes an item pending `ms` from now. True: newly so; an earlier add of it may already be waiting. */
  addAfter(item: T, ms: number, options?: AddAfterOptions): boolean {
    if (typeof ms !== 'number' || Number.isNaN(ms)) {
      throw new RangeError(`addAfter: the delay is ${String(ms)}; give milliseconds, Infinity for never.`)
    }
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.shuttingDown) return false
    const fresh = this.#addLater(item, ms, priority, options?.replace ?? false)
    this.countRetry()
    return fresh
  }

  /** Takes a waiting add back. False: the item was not waiting. */
  cancelAfter(item: T): boolean {
    const index = this.keyIndexes.find(this.keyOf(item))
    if (index === undefined || !this.#delayed.has(index)) return false
    this.#stopWaiting(index)
    return true
  }

  /** When a waiting item falls due, on the queue's clock. */
  readyAt(item: T): number | undefined {
    const index = this.keyIndexes.find(this.keyOf(item))
    return index !== undefined && this.#delayed.has(index) ? this.#delayed.dueAt(index) : undefined
  }

  protected override isWaiting(index: number): boolean {
    return this.#delayed.has(index)
  }

  protected override renumber(newIndexes: Uint32Array): void {
    super.renumber(newIndexes)
    this.#delayed.renumber(newIndexes)
  }

  protected override clear(): void {
    super.clear()
    this.#delayed.clear()
  }

  protected override close(): void {
    super.close()
    while (this.#delayed.size > 0) {
      this.#stopWaiting(this.#delayed.lastIndex)
    }
  }

  #addLater(item: T, ms: number, priority: number, replace: boolean): boolean {
    const index = this.keyIndexes.take(this.keyOf(item))
    if (this.#coalesce && this.isPending(index)) return this.enter(index, item, priority)
    const isWaiting = this.#delayed.has(index)
    if (ms <= 0) {
      // An `add`, except that `replace` moves the waiting add to this moment.
      return isWaiting && replace ? this.#useUp(index, item, priority) : this.add(item, { priority })
    }
    const dueAt = this.clock.now() + ms
    if (isWaiting) this.#delayed.merge(index, item, dueAt, priority, replace)
    else this.#delayed.add(index, item, dueAt, priority)
    this.#arm()
    return !isWaiting
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp(index: number, item: T, priority: number): boolean {
    const entered = this.enter(index, item, Math.max(priority, this.#delayed.priority(index)))
    // Found anew: a metrics hook may have called the queue meanwhile, and the key indexes may have moved.
    const present = this.keyIndexes.find(this.keyOf(item))
    if (present !== undefined && this.#delayed.has(present)) this.#stopWaiting(present)
    return entered
  }

  #stopWaiting(index: number): void {
    const item = this.#delayed.item(index)
    this.#delayed.remove(index)
    if (this.#delayed.size === 0) this.#disarm()
    this.leave(index, item)
  }

  /** Sets the timer if it would fire too late, or not at all. */
  #arm(): void {
    const dueAt = this.#delayed.nextDueAt
    // What never falls due needs no timer either, and must not keep the process alive.
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
    while (this.#delayed.nextDueAt <= now) this.#enterNext(now)
    this.#arm()
  }

  #enterNext(now: number): void {
    const index = this.#delayed.nextIndex
    const item = this.#delayed.item(index)
    const priority = this.#delayed.priority(index)
    // A key index that is given up in the meantime (a store that throws) takes its key along.
    const key = this.keyAt(index, item)
    this.#delayed.remove(index)
    try {
      this.enter(index, item, priority)
    } catch (error) {
      // Only a store of the caller's can throw here, and no caller is there to catch it. The item waits again.
      this.#delayed.add(this.keyIndexes.take(key), item, now + longestTimerMs, priority)
      console.error('A work queue could not take in an item that fell due; it is tried again:', error)
    }
  }
}
