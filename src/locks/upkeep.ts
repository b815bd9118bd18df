import { type Clock, systemClock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { LineTimes } from '../lines/index.ts'
import type { LocksParts } from './locks.ts'
import { ringFor } from './topics.ts'

/**
 * Ends dead leases and calls the next in line, for lines that nobody asks about meanwhile. Safe anywhere and any number
 * of times: every step is conditional on what it finds. It begins with the first use and rests when nothing was used for
 * a while, so a box that only once took a lock does not go on asking its store.
 */
export interface Sweeper extends AsyncDisposable {
  /** There may be something to sweep from now on. */
  wake(): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

const idleMs = 250
const batch = 200
/** Longer than anything that was asked for is likely to take; whoever asks again wakes it. */
const restAfterMs = 120_000

export function createSweeper({ store, bell }: LocksParts, times: LineTimes): Sweeper {
  let loop: Loop | undefined
  let lastUse = 0
  let isClosed = false

  async function step(): Promise<'more' | 'idle'> {
    const swept = await store.sweep(batch, times)
    for (const { key, told } of swept) ringFor(bell, key, told)
    if (swept.length > 0) lastUse = performance.now()
    else if (performance.now() - lastUse > restAfterMs) rest()
    return swept.length >= batch ? 'more' : 'idle'
  }

  function rest(): void {
    void loop?.stop({ graceMs: 0 })
    loop = undefined
  }

  return {
    get loop() {
      return loop
    },
    wake() {
      lastUse = performance.now()
      if (!isClosed) loop ??= createLoop({ name: 'locks.sweep', idleMs, clock: patientClock, step })
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
      loop = undefined
    },
  }
}

/** Sweeping must not keep a process alive that has nothing else to do. */
const patientClock: Clock = {
  now: () => systemClock.now(),
  setTimeout(callback, ms) {
    const timer = systemClock.setTimeout(callback, ms) as { unref?: () => void }
    timer.unref?.()
    return timer
  },
  clearTimeout: (timer) => systemClock.clearTimeout(timer),
}
