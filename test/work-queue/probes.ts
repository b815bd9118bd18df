/**
 * Probes of the work queue's tests: whether a promise is still open, the calls of a store, the timers of a clock. Only
 * `heldBytes` waits for a while; `quiet` only lets ready code run.
 */
import assert from 'node:assert/strict'
import type { Clock, Entry, Queue, Work, WorkQueue } from 'signalbox/workqueue'

/** Resolves once every promise reaction that was ready has run. */
export function quiet(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Whether a promise is still open after everything that was ready has run. */
export async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  let open = true
  const close = (): void => {
    open = false
  }
  promise.then(close, close)
  await quiet()
  return open
}

/** Takes the next ready item; fails the test when there is none. */
export function take<T>(queue: WorkQueue<T>): Work<T> {
  const work = queue.tryGet()
  assert.ok(work !== undefined && !work.shutdown, 'an item is ready')
  return work
}

/** Takes every ready item and ends each turn; the items in the order they were handed out. */
export function takeAll<T>(queue: WorkQueue<T>): T[] {
  const items: T[] = []
  for (let work = queue.tryGet(); work && !work.shutdown; work = queue.tryGet()) {
    items.push(work.item)
    queue.done(work.item)
  }
  return items
}

/** The work a `get` resolved with; fails the test when it was a shutdown. */
export async function workOf<T>(got: ReturnType<WorkQueue<T>['get']>): Promise<Work<T>> {
  const work = await got
  assert.ok(!work.shutdown, 'the get was given an item')
  return work
}

/** A promise that its maker settles. */
export interface Gate<T = void> {
  readonly promise: Promise<T>
  open(value: T): void
  fail(error: unknown): void
}

/** Makes a promise that is settled from outside. */
export function createGate<T = void>(): Gate<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  return { promise, open: resolve, fail: reject }
}

/** One call that a store received. */
export interface StoreCall<T> {
  readonly call: 'push' | 'touch' | 'pop'
  readonly entry: Entry<T>
  /** Copied at the moment of the call: an entry may change later. */
  readonly item: T
  readonly priority: number
  readonly previousPriority?: number
}

/** A first in, first out store without priorities that writes down every call. */
export class TapeStore<T> implements Queue<T> {
  readonly calls: StoreCall<T>[] = []
  readonly #inner: Queue<T> | undefined
  readonly #entries: Entry<T>[] = []

  constructor(inner?: Queue<T>) {
    this.#inner = inner
  }

  push(entry: Entry<T>): void {
    this.calls.push({ call: 'push', entry, item: entry.item, priority: entry.priority })
    if (this.#inner) this.#inner.push(entry)
    else this.#entries.push(entry)
  }

  touch(entry: Entry<T>, previousPriority: number): void {
    this.calls.push({ call: 'touch', entry, item: entry.item, priority: entry.priority, previousPriority })
    this.#inner?.touch(entry, previousPriority)
  }

  pop(): Entry<T> {
    assert.ok(this.size > 0, 'pop is only called while size > 0')
    const entry = this.#inner ? this.#inner.pop() : this.#entries.shift()!
    this.calls.push({ call: 'pop', entry, item: entry.item, priority: entry.priority })
    return entry
  }

  get size(): number {
    return this.#inner ? this.#inner.size : this.#entries.length
  }

  /** The calls' names, in order. */
  get names(): string[] {
    return this.calls.map(({ call }) => call)
  }
}

/** A timer that a `HandClock` was asked for. */
export interface HandTimer {
  readonly ms: number
  readonly callback: () => void
  state: 'armed' | 'fired' | 'cleared'
  unrefs: number
  unref(): void
}

/** A clock whose timers fire only by hand, whatever it reads: early, late or never. */
export class HandClock implements Clock {
  time = 0
  readonly timers: HandTimer[] = []

  now(): number {
    return this.time
  }

  setTimeout(callback: () => void, ms: number): HandTimer {
    const timer: HandTimer = {
      ms,
      callback,
      state: 'armed',
      unrefs: 0,
      unref() {
        timer.unrefs++
      },
    }
    this.timers.push(timer)
    return timer
  }

  clearTimeout(handle: unknown): void {
    const timer = handle as HandTimer
    if (timer.state === 'armed') timer.state = 'cleared'
  }

  get armed(): HandTimer[] {
    return this.timers.filter(({ state }) => state === 'armed')
  }

  /** Fires the one armed timer, at whatever the clock reads. */
  fire(): void {
    const [timer, ...others] = this.armed
    assert.ok(timer && others.length === 0, 'exactly one timer is armed')
    timer.state = 'fired'
    timer.callback()
  }
}

/**
 * The least that is held over a few collections, and over more until it is little enough. The memory of typed arrays is given back by another
 * thread, for which a busy machine may have no time just now; what is really kept is kept after seconds too.
 */
export async function heldBytes(enough: number = Number.POSITIVE_INFINITY): Promise<number> {
  assert.ok(globalThis.gc, 'run with --expose-gc')
  const fewRounds = 4
  const mostRounds = 100
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < mostRounds && (round < fewRounds || least > enough); round++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 10))
    const { heapUsed, external } = process.memoryUsage()
    least = Math.min(least, heapUsed + external)
  }
  return least
}
