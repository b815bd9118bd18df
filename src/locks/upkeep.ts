import { patientClock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { createDeadlockDetector } from './deadlock-detector.ts'
import type { LockKey } from './lock-store.ts'
import { wakeFor } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import type { LockTimes } from './rules/index.ts'

/**
 * Ends expired leases, calls the next waiter of wait queues that no process asks about meanwhile, and ends deadlocks. Any
 * number of sweepers may run: every step checks what it finds. It begins with the first use and rests after a while
 * without use, so a box that took a lock once does not keep asking its store.
 */
export interface Sweeper extends AsyncDisposable {
  /** There may be something to sweep from now on. */
  wake(): void
  /** This wait queue has a waiter, so it may be part of a deadlock. */
  suspect(key: LockKey): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

const idleMs = 250
const batch = 200
/** Longer than most calls take; the next call wakes it. */
const restAfterMs = 120_000

export function createSweeper(parts: LocksParts, times: LockTimes): Sweeper {
  const { store, notifier } = parts
  const detector = createDeadlockDetector(parts, times)
  let loop: Loop | undefined
  let lastUse = 0
  let isClosed = false

  async function step(): Promise<'more' | 'idle'> {
    const swept = await store.sweep(batch, times)
    for (const { key, notified } of swept) {
      wakeFor(notifier, key, notified)
      if (notified.requesters.length > 0) detector.suspect(key)
    }
    await detector.look()
    if (swept.length > 0) lastUse = performance.now()
    else if (performance.now() - lastUse > restAfterMs) rest()
    return swept.length >= batch ? 'more' : 'idle'
  }

  function rest(): void {
    void loop?.stop({ graceMs: 0 })
    loop = undefined
  }

  function wake(): void {
    lastUse = performance.now()
    if (!isClosed) loop ??= createLoop({ name: 'locks.sweep', idleMs, clock: patientClock, step })
  }

  return {
    get loop() {
      return loop
    },
    wake,
    suspect(key) {
      detector.suspect(key)
      wake()
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
      loop = undefined
    },
  }
}
