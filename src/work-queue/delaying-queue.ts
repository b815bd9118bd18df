/**
 * The delaying queue: an item may be added now and become pending later. One heap, one timer, none when nothing
 * waits. When the timer fires, whatever is due by then enters the queue in due order, as any `add` would.
 */

import { Waiting } from './indexed/delayed-items.ts'
import { type AddAfterOptions, type AddOptions, type DelayingQueueOptions, priorityOf } from './options.ts'
import { WorkQueue } from './work-queue.ts'

/** The longest a timer is set for: a stepped clock is noticed within it, and no delay is too long for a timer. */
const longestTimerMs = 10_000
/** Once so many fell due at a time, it is looked whether many more are. */
const manyDue = 64

/** client-go's delaying queue: of several delayed adds of one item the earliest stands. */
export class DelayingQueue<T> extends WorkQueue<T> {
  readonly #coalesce: boolean
  readonly #unref: boolean
  readonly #waiting = new Waiting<T>()
  #timer: unknown
  /** When the armed timer fires; Infinity while none is armed. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(options: DelayingQueueOptions<T> = {}) {
    super(options)
    this.#coalesce = options.coalesce ?? false
    this.#unref = options.unref ?? false
  }

  override get waiting(): number {
    return this.#waiting.size
  }

  override add(item: T, options?: AddOptions): boolean {
    if (this.#waiting.size === 0) return super.add(item, options)
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.shuttingDown) return false
    const index = this.keyIndexes.take(this.keyOf(item))
    if (this.#waiting.has(index)) {
      if (this.#coalesce) return this.#useUp(index, item, priority)
      // The waiting add stays in force, but it must not bring an older payload back when it falls due.
      this.#waiting.renew(index, item)
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
    if (index === undefined || !this.#waiting.has(index)) return false
    this.#stopWaiting(index)
    return true
  }

  /** When a waiting item falls due, on the queue's clock. */
  readyAt(item: T): number | undefined {
    const index = this.keyIndexes.find(this.keyOf(item))
    return index !== undefined && this.#waiting.has(index) ? this.#waiting.dueAt(index) : undefined
  }

  protected override isWaiting(index: number): boolean {
    return this.#waiting.has(index)
  }

  protected override renumber(newIndexes: Uint32Array): void {
    super.renumber(newIndexes)
    this.#waiting.renumber(newIndexes)
  }

  protected override clear(): void {
    super.clear()
    this.#waiting.clear()
  }

  protected override close(): void {
    super.close()
    while (this.#waiting.size > 0) {
      this.#stopWaiting(this.#waiting.lastIndex)
    }
  }

  #addLater(item: T, ms: number, priority: number, replace: boolean): boolean {
    const index = this.keyIndexes.take(this.keyOf(item))
    if (this.#coalesce && this.isPending(index)) return this.enter(index, item, priority)
    const isWaiting = this.#waiting.has(index)
    if (ms <= 0) {
      // An `add`, but for `replace`, which moves the waiting add to this moment.
      return isWaiting && replace ? this.#useUp(index, item, priority) : this.add(item, { priority })
    }
    const dueAt = this.clock.now() + ms
    if (isWaiting) this.#waiting.merge(index, item, dueAt, priority, replace)
    else this.#waiting.add(index, item, dueAt, priority)
    this.#arm()
    return !isWaiting
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp(index: number, item: T, priority: number): boolean {
    const entered = this.enter(index, item, Math.max(priority, this.#waiting.priority(index)))
    // Found anew: a metrics hook may have called the queue meanwhile, and the key indexes may have moved.
    const present = this.keyIndexes.find(this.keyOf(item))
    if (present !== undefined && this.#waiting.has(present)) this.#stopWaiting(present)
    return entered
  }

  #stopWaiting(index: number): void {
    const item = this.#waiting.item(index)
    this.#waiting.remove(index)
    if (this.#waiting.size === 0) this.#disarm()
    this.leave(index, item)
  }

  /** Sets the timer if it would fire too late, or not at all. */
  #arm(): void {
    const dueAt = this.#waiting.nextDueAt
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
    for (let count = 1; this.#waiting.nextDueAt <= now; count++) {
      if (count === manyDue) this.#waiting.gather(now)
      this.#enterNext(now)
    }
    this.#arm()
  }

  #enterNext(now: number): void {
    const index = this.#waiting.nextIndex
    const item = this.#waiting.item(index)
    const priority = this.#waiting.priority(index)
    // A key index that is given up in the meantime (a store that throws) takes its key along.
    const key = this.keyAt(index, item)
    this.#waiting.remove(index)
    try {
      this.enter(index, item, priority)
    } catch (error) {
      // Only a store of the caller's own can throw here, with no caller to catch it. The item is not lost: it waits
      // again.
      this.#waiting.add(this.keyIndexes.take(key), item, now + longestTimerMs, priority)
      console.error('A work queue could not take in an item that fell due; it is tried again:', error)
    }
  }
}
