import type { Clock } from './clock.ts'

/** A clock that stands still until a test moves it. */
export interface FakeClock extends Clock {
  /** Moves the time on by `ms`; timers on the way fire in due order, each at its own moment. */
  advance(ms: number): void
  /** Sets the reading without firing anything, forwards or back, as a stepped clock would. */
  jump(ms: number): void
  /** How many timers are armed. */
  readonly timerCount: number
  /** When the next timer fires, if one is armed. */
  readonly nextTimerAt: number | undefined
}

interface FakeTimer {
  readonly id: number
  readonly callback: () => void
  /** Counted on the clock's own progress, so a `jump` moves no timer, as with real ones. */
  readonly dueAt: number
}

/** Makes a clock that reads `startMs` and moves only by `advance` and `jump`. */
export function createFakeClock(startMs = 0): FakeClock {
  const timers = new Map<number, FakeTimer>()
  let elapsed = 0
  let offset = startMs
  let lastId = 0

  function next(): FakeTimer | undefined {
    let first: FakeTimer | undefined
    for (const timer of timers.values()) if (!first || timer.dueAt < first.dueAt) first = timer
    return first
  }

  return {
    now: () => elapsed + offset,
    setTimeout(callback, ms) {
      const id = ++lastId
      timers.set(id, { id, callback, dueAt: elapsed + Math.max(0, ms) })
      return id
    },
    clearTimeout: (handle) => void timers.delete(handle as number),
    advance(ms) {
      if (!(ms >= 0)) throw new RangeError(`A clock advances by 0 or more milliseconds, not ${ms}.`)
      const end = elapsed + ms
      for (let timer = next(); timer && timer.dueAt <= end; timer = next()) {
        timers.delete(timer.id)
        elapsed = timer.dueAt
        timer.callback()
      }
      elapsed = end
    },
    jump(ms) {
      offset += ms
    },
    get timerCount() {
      return timers.size
    },
    get nextTimerAt() {
      const timer = next()
      return timer && timer.dueAt + offset
    },
  }
}
