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
    const seat = this.seats.take(this.keyOf(item))
    if (this.#waiting.has(seat)) {
      if (this.#coalesce) return this.#useUp(seat, item, priority)
      // The waiting add stays in force, but it must not bring an older payload back when it falls due.
      this.#waiting.renew(seat, item)
    }
    return this.enter(seat, item, priority)
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
    const seat = this.seats.find(this.keyOf(item))
    if (seat === undefined || !this.#waiting.has(seat)) return false
    this.#stopWaiting(seat)
    return true
  }

  /** When a waiting item falls due, on the queue's clock. */
  readyAt(item: T): number | undefined {
    const seat = this.seats.find(this.keyOf(item))
    return seat !== undefined && this.#waiting.has(seat) ? this.#waiting.dueAt(seat) : undefined
  }

  protected override isWaiting(seat: number): boolean {
    return this.#waiting.has(seat)
  }

  protected override renumber(newSeats: Uint32Array): void {
    super.renumber(newSeats)
    this.#waiting.renumber(newSeats)
  }

  protected override clear(): void {
    super.clear()
    this.#waiting.clear()
  }

  protected override close(): void {
    super.close()
    while (this.#waiting.size > 0) {
      this.#stopWaiting(this.#waiting.lastSeat)
    }
  }

  #addLater(item: T, ms: number, priority: number, replace: boolean): boolean {
    const seat = this.seats.take(this.keyOf(item))
    if (this.#coalesce && this.isPending(seat)) return this.enter(seat, item, priority)
    const isWaiting = this.#waiting.has(seat)
    if (ms <= 0) {
      // An `add`, but for `replace`, which moves the waiting add to this moment.
      return isWaiting && replace ? this.#useUp(seat, item, priority) : this.add(item, { priority })
    }
    const dueAt = this.clock.now() + ms
    if (isWaiting) this.#waiting.merge(seat, item, dueAt, priority, replace)
    else this.#waiting.add(seat, item, dueAt, priority)
    this.#arm()
    return !isWaiting
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp(seat: number, item: T, priority: number): boolean {
    const entered = this.enter(seat, item, Math.max(priority, this.#waiting.priority(seat)))
    // Found anew: a metrics hook may have called the queue meanwhile, and the seats may have moved.
    const present = this.seats.find(this.keyOf(item))
    if (present !== undefined && this.#waiting.has(present)) this.#stopWaiting(present)
    return entered
  }

  #stopWaiting(seat: number): void {
    const item = this.#waiting.item(seat)
    this.#waiting.remove(seat)
    if (this.#waiting.size === 0) this.#disarm()
    this.leave(seat, item)
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
    const seat = this.#waiting.nextSeat
    const item = this.#waiting.item(seat)
    const priority = this.#waiting.priority(seat)
    // A seat that is given up in the meantime (a store that throws) takes its key along.
    const key = this.keyAt(seat, item)
    this.#waiting.remove(seat)
    try {
      this.enter(seat, item, priority)
    } catch (error) {
      // Only a store of the caller's own can throw here, with nobody to catch it. The item is not lost: it waits
      // again, and nobody else waits for it.
      this.#waiting.add(this.seats.take(key), item, now + longestTimerMs, priority)
      console.error('A work queue could not take in an item that fell due; it is tried again:', error)
    }
  }
}
