import { patientClock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { GuardStore } from '../once/index.ts'
import type { MonitorStore } from './monitor-store.ts'

/**
 * Forgets decisions, settled notifications and windows that are older than they are kept, and guards of tasks and events
 * past their time. Safe anywhere, any number of times.
 */
export interface MonitorUpkeep extends AsyncDisposable {
  /** There may be something to forget from now on. */
  wake(): void
}

const idleMs = 60_000
const biteSize = 1_000

/** It begins with the first report, so that a box which never monitors does not ask its store. */
export function createMonitorUpkeep(
  store: Pick<MonitorStore, 'prune'>,
  guards: Pick<GuardStore, 'prune'>,
  olderThanMs: number,
): MonitorUpkeep {
  let loop: Loop | undefined
  let isClosed = false
  const step = async () => {
    const rows = await store.prune({ olderThanMs, limit: biteSize })
    const spent = await guards.prune(biteSize)
    return rows >= biteSize || spent >= biteSize ? 'more' : 'idle'
  }
  return {
    wake() {
      if (!isClosed) loop ??= createLoop({ name: 'monitor.upkeep', idleMs, clock: patientClock, step })
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
    },
  }
}
