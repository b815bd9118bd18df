import { createUpkeepLoop, type Upkeep } from '../core/upkeep.ts'
import { createDeadlockDetector } from './deadlock-detector.ts'
import type { LockKey } from './lock-store.ts'
import { wakeFor } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import type { LockTimes } from './rules/index.ts'

/**
 * Ends expired leases, grants locks to the next waiters of wait queues that no process asks about, and ends deadlocks. Any
 * number of sweepers may run, because every step checks the rows it finds. The sweeper starts with the first use and rests
 * after two minutes without use, so a box that took a lock once does not keep asking its store.
 */
export interface Sweeper extends Upkeep {
  /** This wait queue has a waiter, so it may be part of a deadlock. */
  suspect(key: LockKey): void
}

const batch = 200
/** Longer than most calls take; the next call wakes it. */
const restAfterMs = 120_000

export function createSweeper(parts: LocksParts, times: LockTimes): Sweeper {
  const { store, notifier } = parts
  const detector = createDeadlockDetector(parts, times)
  const upkeep = createUpkeepLoop({ name: 'locks.sweep', idleMs: 250, restAfterMs, step })

  async function step(): Promise<'more' | 'idle'> {
    const swept = await store.sweep(batch, times)
    for (const { key, notified } of swept) {
      wakeFor(notifier, key, notified)
      if (notified.requesters.length > 0) detector.suspect(key)
    }
    await detector.look()
    if (swept.length > 0) upkeep.wake()
    return swept.length >= batch ? 'more' : 'idle'
  }

  return {
    get loop() {
      return upkeep.loop
    },
    wake: () => upkeep.wake(),
    suspect(key) {
      detector.suspect(key)
      upkeep.wake()
    },
    [Symbol.asyncDispose]: () => upkeep[Symbol.asyncDispose](),
  }
}
