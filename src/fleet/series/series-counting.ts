import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { SeriesKeep } from '../rules/index.ts'
import { createSeriesRecorder, type SeriesRecorder } from './recorder.ts'
import type { SeriesStore } from './series-store.ts'

/**
 * Puts the rows of processes together and deletes old steps. Every process that counts does this for its namespace, so
 * that no series depends on a server: the store lets one of them at a time, and the others find nothing to do.
 */
function createRollUpLoop(store: Pick<SeriesStore, 'roll'>, keep: SeriesKeep): Loop {
  return createLoop({
    name: 'fleet.series',
    clock: patientClock,
    // Each process at a pace of its own.
    idleMs: Math.round(idleMs * (1 + Math.random())),
    step: async () => ((await store.roll(keep)) ? 'more' : 'idle'),
  })
}

const idleMs = 45_000

/** Counts for one box, and keeps what was counted from the first count on. */
export interface SeriesCounting {
  readonly recorder: SeriesRecorder
  /** Writes what was counted. */
  close(): Promise<void>
}

export function createSeriesCounting(store: SeriesStore, keep: SeriesKeep): SeriesCounting {
  let keeper: Loop | undefined
  let isClosed = false
  const recorder = createSeriesRecorder({
    store,
    onWritten() {
      if (!isClosed) keeper ??= createRollUpLoop(store, keep)
    },
  })
  return {
    recorder,
    async close() {
      isClosed = true
      await keeper?.stop()
      await recorder[Symbol.asyncDispose]()
    },
  }
}
