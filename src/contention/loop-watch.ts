import { PerformanceObserver } from 'node:perf_hooks'
import { Histogram } from './histogram.ts'
import type { Kind, Kinds } from './kinds.ts'
import { Holds } from './kinds.ts'
import type { NamedHolders } from './wait-matrix.ts'

/**
 * The event loop, the garbage collector and the host as holders. A timer should fire every ten milliseconds; when it is
 * late, something had the thread: a reported turn, a collection, untracked code (`event-loop`), or the host did not let the
 * process run (`host`). Node says how long the loop was busy, which tells the last two apart.
 *
 *     timer   ┊◀─ 10 ms ─▶┊ due                  fires
 *     thread  ├─idle─┤├────── busy ──────────────┤     event-loop: what of it no collection and no turn explains
 *
 * The timer itself waits, too: `timer` in the matrix says who stops this thread, also while nothing else waits. While the
 * thread is idle the timer fires four times a second only, so that an idle process stays asleep.
 */
export class LoopWatch {
  readonly #parts: LoopParts
  readonly #named: NamedHolders
  #timer: ReturnType<typeof setInterval> | undefined
  #observer: PerformanceObserver | undefined
  #tickedAt = 0
  #activeMs = 0
  #periodMs = tickMs
  /** How busy the thread was since then decides the period. */
  #pacedAt = 0
  #pacedActiveMs = 0
  /** Lateness that is not shared out yet: collections are told of a round or two later. */
  #late: { readonly from: number; readonly to: number; readonly activeMs: number } | undefined

  constructor(parts: LoopParts, named: NamedHolders) {
    this.#parts = parts
    this.#named = named
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#begin(this.#parts.now())
    this.#setPeriod(tickMs)
    this.#observer = new PerformanceObserver((list) => this.#collected(list.getEntries()))
    this.#observer.observe({ entryTypes: ['gc'] })
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#observer?.disconnect()
    this.#observer = undefined
  }

  /** Before a snapshot: counts the present delay without waiting for the timer. */
  look(): void {
    if (this.#timer === undefined) return
    this.#collected(this.#observer!.takeRecords())
    this.#settleLate()
    const now = this.#parts.now()
    if (now - this.#tickedAt <= this.#periodMs + graceMs) return
    this.#note(now)
    this.#settleLate()
  }

  #tick(): void {
    const before = this.#tickedAt
    this.#settleLate()
    this.#note(this.#parts.now())
    this.#parts.onTick(before)
    this.#pace()
  }

  /** Ticks slowly after an idle second, and at full pace after the first slow tick that finds the thread busy. */
  #pace(): void {
    const spanMs = this.#tickedAt - this.#pacedAt
    if (this.#periodMs === tickMs && spanMs < idleAfterMs) return
    const isIdle = this.#activeMs - this.#pacedActiveMs < spanMs * idleShare
    const periodMs = isIdle ? idleTickMs : tickMs
    if (periodMs === this.#periodMs) this.#beginPace()
    else this.#setPeriod(periodMs)
  }

  #setPeriod(periodMs: number): void {
    clearInterval(this.#timer)
    this.#periodMs = periodMs
    this.#timer = setInterval(() => this.#tick(), periodMs)
    this.#timer.unref()
    this.#beginPace()
  }

  #beginPace(): void {
    this.#pacedAt = this.#tickedAt
    this.#pacedActiveMs = this.#activeMs
  }

  #note(now: number): void {
    const dueAt = this.#tickedAt + this.#periodMs
    if (now - dueAt > graceMs) {
      const spanMs = now - this.#tickedAt
      // Before the loop has begun, Node counts nothing: the program's own first lines run then.
      const activeMs = this.#activeMs > 0 ? Math.min(spanMs, this.#parts.activeMs() - this.#activeMs) : spanMs
      this.#late = { from: dueAt, to: now, activeMs }
      this.#parts.timerWaited(dueAt, now)
    }
    this.#begin(now)
  }

  #begin(now: number): void {
    this.#tickedAt = now
    this.#activeMs = this.#parts.activeMs()
  }

  #settleLate(): void {
    if (this.#late === undefined) return
    const { from, to, activeMs } = this.#late
    this.#late = undefined
    const { gc, eventLoop, host } = this.#named
    // Busy until the timer fired; when that began is not known better than this.
    const busyFrom = to - activeMs
    let named = gc.holds?.between(busyFrom, to) ?? 0
    for (const kind of this.#parts.kinds.sync) named += kind.holds?.between(busyFrom, to) ?? 0
    add(eventLoop, busyFrom, to, activeMs - named)
    add(host, from, to, to - from - activeMs)
  }

  #collected(entries: readonly { readonly startTime: number; readonly duration: number }[]): void {
    for (const { startTime, duration } of entries)
      add(this.#named.gc, startTime, startTime + duration, duration)
  }
}

export interface LoopParts {
  readonly kinds: Kinds
  now(): number
  /** How long the event loop has been busy, ever. */
  activeMs(): number
  /** The timer fired late. */
  timerWaited(dueAt: number, now: number): void
  /** It is known now what happened until then. */
  onTick(until: number): void
}

/** How long the event loop has been busy, ever, as Node counts it. */
export function loopActiveMs(): number {
  return performance.eventLoopUtilization().active
}

const tickMs = 10
const idleTickMs = 250
const idleAfterMs = 1_000
/** A thread that is busy for less than this share of the time is idle. */
const idleShare = 0.05
/** Timers of Node count whole milliseconds. */
const graceMs = 2

function add(kind: Kind, from: number, to: number, busyMs: number): void {
  if (!(busyMs > 0.01)) return
  kind.hold ??= new Histogram()
  kind.hold.record(busyMs)
  kind.holds ??= new Holds()
  kind.holds.add(from, to, busyMs)
}
