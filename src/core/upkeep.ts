import { patientClock } from './clock.ts'
import { createLoop, type Loop, type StepOutcome } from './loop.ts'

/**
 * A loop that deletes or ends what is past its time. No promise waits for it: whether a row is over is judged when it is
 * read. It starts with the first use, so that a box which never uses the module never asks its store. It is safe in any
 * number of processes.
 */
export interface Upkeep extends AsyncDisposable {
  /** There may be something to do from now on. */
  wake(): void
  /** Undefined while it rests. */
  readonly loop: Loop | undefined
}

interface UpkeepTimes {
  readonly name: string
  /** The pause after a step that found little. */
  readonly idleMs: number
  /** It rests when it was not woken for this long. @default never */
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
