import { patientClock } from '../core/clock.ts'
import { createLoop, type Loop } from '../core/loop.ts'

/**
 * A loop that deletes rows past their time. No promise waits for it: whether a row is over is judged when it is read. It
 * starts with the first use, so that a box which never uses the module never asks its store. It is safe in any number of
 * processes.
 */
export interface Upkeep extends AsyncDisposable {
  /** There may be something to delete from now on. */
  wake(): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

export interface UpkeepParts {
  readonly name: string
  /** The pause after a step that found little. */
  readonly idleMs: number
  /** Deletes up to `limit` rows of each table. Returns how many, by table. */
  readonly prune: (limit: number) => Promise<readonly number[]>
  /** It rests when it was not woken for this long. @default never */
  readonly restAfterMs?: number
}

const biteSize = 1_000

export function createUpkeep(parts: UpkeepParts): Upkeep {
  const { name, idleMs, prune, restAfterMs = Number.POSITIVE_INFINITY } = parts
  let loop: Loop | undefined
  let lastUse = 0
  let isClosed = false

  async function step(): Promise<'more' | 'idle'> {
    const isMore = (await prune(biteSize)).some((count) => count >= biteSize)
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
      if (!isClosed) loop ??= createLoop({ name, idleMs, clock: patientClock, step })
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
      loop = undefined
    },
  }
}
