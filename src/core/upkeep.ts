import { patientClock } from './clock.ts'
import { createLoop, type Loop, type StepOutcome } from './loop.ts'

/**
 * A loop that deletes or ends expired rows. No caller depends on it: readers check the expiry of a row themselves. The
 * loop starts with the first use, so that a box that does not use the module does not call its store. Any number of
 * processes may run it.
 */
export interface Upkeep extends AsyncDisposable {
  /** Starts the loop, if it rests. */
  wake(): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

interface UpkeepTimes {
  readonly name: string
  /** The pause after a step that found little. */
  readonly idleMs: number
  /** The loop rests after this time without `wake`. @default never */
  readonly restAfterMs?: number
}

/** Runs `step` from the first `wake` on. */
export function createUpkeepLoop({
  name,
  idleMs,
  restAfterMs = Number.POSITIVE_INFINITY,
  step,
}: UpkeepTimes & { readonly step: () => Promise<StepOutcome> }): Upkeep {
  let loop: Loop | undefined
  let lastUse = 0
  let isClosed = false

  async function stepOrRest(): Promise<StepOutcome> {
    const outcome = await step()
    if (outcome !== 'more' && performance.now() - lastUse > restAfterMs) {
      void loop?.stop({ graceMs: 0 })
      loop = undefined
    }
    return outcome
  }

  return {
    get loop() {
      return loop
    },
    wake() {
      lastUse = performance.now()
      if (!isClosed) loop ??= createLoop({ name, idleMs, clock: patientClock, step: stepOrRest })
    },
    async [Symbol.asyncDispose]() {
      isClosed = true
      await loop?.stop({ graceMs: 2_000 })
      loop = undefined
    },
  }
}

export interface UpkeepParts extends UpkeepTimes {
  /** Deletes up to `limit` rows of each table. Returns how many, by table. */
  readonly prune: (limit: number) => Promise<readonly number[]>
}

const biteSize = 1_000

/** Deletes rows past their time. */
export function createUpkeep({ prune, ...times }: UpkeepParts): Upkeep {
  return createUpkeepLoop({
    ...times,
    step: async () => ((await prune(biteSize)).some((count) => count >= biteSize) ? 'more' : 'idle'),
  })
}
