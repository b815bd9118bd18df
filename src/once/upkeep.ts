import { patientClock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { GuardStore } from './guard-store.ts'

/**
 * Forgets guards and windows past their time. No promise waits for it: whether one is over is judged when it is asked
 * for. It begins with the first use and rests when nothing was used for a while, so that a box which only once claimed a
 * key does not go on asking its store; and it is safe anywhere and any number of times.
 */
export interface GuardUpkeep extends AsyncDisposable {
  /** There may be something to forget from now on. */
  wake(): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

const idleMs = 30_000
const biteSize = 1_000
const restAfterMs = 600_000

export function createGuardUpkeep(store: Pick<GuardStore, 'prune'>): GuardUpkeep {
  let loop: Loop | undefined
  let lastUse = 0
  let isClosed = false

  async function step(): Promise<'more' | 'idle'> {
    const isMore = (await store.prune(biteSize)) >= biteSize
    if (!isMore && performance.now() - lastUse > restAfterMs) {
      void loop?.stop({ graceMs: 0 })
      loop = undefined
    }
    return isMore ? 'more' : 'idle'
  }

  return {
    get loop() {
      return loop
    },
    wake() {
      lastUse = performance.now()
      if (!isClosed) loop ??= createLoop({ name: 'once.upkeep', idleMs, clock: patientClock, step })
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
      loop = undefined
    },
  }
}
