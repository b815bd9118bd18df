/**
 * The delaying queue: an item may be added now and become pending later. One heap, one timer, none when nothing
 * waits. When the timer fires, whatever is due by then enters the queue in due order, as any `add` would.
 */
import { type AddAfterOptions, type AddOptions, type DelayingQueueOptions, priorityOf } from './options.ts'
import { Waiting } from './waiting.ts'
import { WorkQueue } from './workqueue.ts'

/** The longest a timer is set for: a stepped clock is noticed within it, and no delay is too long for a timer. */
const longestTimerMs = 10_000

/** client-go's delaying queue: of several delayed adds of one item the earliest stands. */
export class DelayingQueue<T> extends WorkQueue<T> {
  readonly #coalesce: boolean
  readonly #unref: boolean
  readonly #waiting: Waiting<T>
  #timer: unknown
  /** When the armed timer fires; Infinity while none is armed. */
  #timerAt = Number.POSITIVE_INFINITY

  constructor(options: DelayingQueueOptions<T> = {}) {
    super(options)
    this.#coalesce = options.coalesce ?? false
    this.#unref = options.unref ?? false
    this.#waiting = new Waiting(options.key === undefined)
  }

  override get waiting(): number {
    return this.#waiting.size
  }

  override add(item: T, options?: AddOptions): boolean {
    if (this.#waiting.size === 0) return super.add(item, options)
    const priority = options === undefined ? 0 : priorityOf(options)
    if (this.shuttingDown) return false
    const key = this.keyOf(item)
    if (this.#coalesce) return this.#useUp(key, item, priority)
    // The waiting add stays in force, but it must not bring an older payload back when it falls due.
    this.#waiting.renew(key, item)
    return this.enter(key, item, priority)
  }

  /** Makes an item pending `ms` from now. True: newly so; an earlier add of it may already be waiting. */
  addAfter(item: T, ms: number, options: AddAfterOptions = {}): boolean {
    if (typeof ms !== 'number' || Number.isNaN(ms)) {
      throw new RangeError(`addAfter: the delay is ${String(ms)}; give milliseconds, Infinity for never.`)
    }
    const priority = priorityOf(options)
    if (this.shuttingDown) return false
    const fresh = this.#addLater(item, ms, priority, options.replace ?? false)
    this.countRetry()
    return fresh
  }

  /** Takes a waiting add back. False: the item was not waiting. */
  cancelAfter(item: T): boolean {
    const cancelled = this.#waiting.take(this.keyOf(item)) !== undefined
    this.#disarmIfNothingWaits()
    return cancelled
  }

  /** When a waiting item falls due, on the queue's clock. */
  readyAt(item: T): number | undefined {
    return this.#waiting.dueAt(this.keyOf(item))
  }

  protected override close(): void {
    super.close()
    this.#waiting.clear()
    this.#disarmIfNothingWaits()
  }

  #addLater(item: T, ms: number, priority: number, replace: boolean): boolean {
    const key = this.keyOf(item)
    if (this.#coalesce && this.isPending(key)) return this.enter(key, item, priority)
    if (ms <= 0) return replace ? this.#useUp(key, item, priority) : this.add(item, { priority })
    const fresh = this.#waiting.set(key, item, this.clock.now() + ms, priority, replace)
    this.#arm()
    return fresh
  }

  /** Adds an item now, in place of its waiting add. */
  #useUp(key: unknown, item: T, priority: number): boolean {
    const entered = this.enter(key, item, Math.max(priority, this.#waiting.priorityOf(key) ?? priority))
    this.#waiting.take(key)
    this.#disarmIfNothingWaits()
    return entered
  }

  /** Sets the timer if it would fire too late, or not at all. */
  #arm(): void {
    const dueAt = this.#waiting.nextDueAt
    // What never falls due needs no timer, and must not keep the process alive.
    if (dueAt === Number.POSITIVE_INFINITY) return
    const now = this.clock.now()
    const timerAt = Math.min(dueAt, now + longestTimerMs)
    if (timerAt >= this.#timerAt) return
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

  #disarmIfNothingWaits(): void {
    if (this.#waiting.size === 0) this.#disarm()
  }

  #fire(): void {
    this.#timer = undefined
    this.#timerAt = Number.POSITIVE_INFINITY
    const now = this.clock.now()
    while (this.#waiting.nextDueAt <= now) this.#enterNext(now)
    this.#arm()
  }

  #enterNext(now: number): void {
    const { key, item, priority } = this.#waiting.takeNext()
    try {
      this.enter(key, item, priority)
    } catch (error) {
      // Only a store of the caller's own can throw here, with nobody to catch it. The item is not lost: it
      // comes again, and nobody else waits for it.
      this.#waiting.set(key, item, now + longestTimerMs, priority, false)
      console.error('A work queue could not take in an item that fell due; it is tried again:', error)
    }
  }
}
