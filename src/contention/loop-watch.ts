import { PerformanceObserver } from 'node:perf_hooks'
import { Histogram } from './histogram.ts'
import type { Kind, Kinds } from './kinds.ts'
import { Holds } from './kinds.ts'
import type { NamedHolders } from './wait-matrix.ts'

/**
 * The event loop, the garbage collector and the host as holders. A timer should fire every 25 milliseconds. If it is
 * late, the thread was used by a reported turn, by a collection or by untracked code (`event-loop`), or the host did
 * not run the process (`host`). Node reports how long the loop was busy, which distinguishes the last two.
 *
 *     timer   ┊◀─ 25 ms ─▶┊ due                  fires
 *     thread  ├─idle─┤├────── busy ──────────────┤     event-loop: busy time without collections and turns
 *
 * The timer itself is a waiter too: `timer` in the matrix shows what stops this thread, even while nothing else waits.
 * While the thread is idle, the timer fires only four times a second, so that an idle process stays asleep.
 *
 * So the watch is a sample: it sees every block of more than 25 ms, and a shorter one if the timer is due during it.
 * Each tick wakes the process, which costs about 0.1 ms of CPU: see docs/decisions/060.
 */
export class LoopWatch {
  readonly #parts: LoopParts
  readonly #named: NamedHolders
  #timer: ReturnType<typeof setInterval> | undefined
  #observer: PerformanceObserver | undefined
  #tickedAt = 0
  #activeMs = 0
  #periodMs = tickMs
  /** The busy time since then decides the period. */
  #pacedAt = 0
  #pacedActiveMs = 0
  /** A delay that is not attributed yet: Node reports collections a round or two later. */
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

  /** Counts the present delay without waiting for the timer. Call it before a snapshot. */
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
      // Before the loop begins, Node counts no busy time, although the first lines of the program run.
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
    // The busy time is assumed to end when the timer fired, because its exact position is unknown.
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
  /** The total busy time of the event loop. */
  activeMs(): number
  /** Called when the timer fired late. */
  timerWaited(dueAt: number, now: number): void
  /** Called when all delays until then are attributed. */
  onTick(until: number): void
}

/** The total busy time of the event loop, as Node counts it. */
export function loopActiveMs(): number {
  return performance.eventLoopUtilization().active
}

const tickMs = 25
const idleTickMs = 250
const idleAfterMs = 1_000
/** A thread that is busy for less than this share of the time is idle. */
const idleShare = 0.05
/** A tolerance, because timers of Node count whole milliseconds. */
const graceMs = 2

function add(kind: Kind, from: number, to: number, busyMs: number): void {
  if (!(busyMs > 0.01)) return
  kind.hold ??= new Histogram()
  kind.hold.record(busyMs)
  kind.holds ??= new Holds()
  kind.holds.add(from, to, busyMs)
}
