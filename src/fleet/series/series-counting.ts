import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import type { SeriesKeep } from '../rules/index.ts'
import { createSeriesRecorder, type SeriesRecorder } from './recorder.ts'
import type { SeriesStore } from './series-store.ts'

/**
 * Merges the rows of processes and deletes old steps. Every process that counts does this for its namespace, so that no
 * series depends on a server. The store lets one process work at a time; the others find nothing to do.
 */
function createMergeLoop(store: Pick<SeriesStore, 'merge'>, keep: SeriesKeep): Loop {
  return createLoop({
    name: 'fleet.series',
    clock: patientClock,
    // Each process has another pause, so that they do not run at the same time.
    idleMs: Math.round(idleMs * (1 + Math.random())),
    step: async () => ((await store.merge(keep)) ? 'more' : 'idle'),
  })
}

const idleMs = 45_000

/** Counts for one box. From the first write on, it also merges and deletes steps. */
export interface SeriesCounting {
  readonly recorder: SeriesRecorder
  /** Writes the last counts. */
  close(): Promise<void>
}

export function createSeriesCounting(store: SeriesStore, keep: SeriesKeep): SeriesCounting {
  let mergeLoop: Loop | undefined
  let isClosed = false
  const recorder = createSeriesRecorder({
    store,
    onWritten() {
      if (!isClosed) mergeLoop ??= createMergeLoop(store, keep)
    },
  })
  return {
    recorder,
    async close() {
      isClosed = true
      await mergeLoop?.stop()
      await recorder[Symbol.asyncDispose]()
    },
  }
}
