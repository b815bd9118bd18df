/** Signalbox itself, through its public door. It keeps the history of every job, as it always does. */
import { open } from 'signalbox'
import type { WorkerOptions } from 'signalbox/jobs'
import { type Lane, type OpenLane, payloadOf } from './lane.ts'

/** What the jobs are counted by, and whether that matters. */
export interface LaneKeys {
  /** Each job has one of so many keys, in turn. */
  readonly keys: number
  /** So many of a key may run at once; null: the queue has no limits. */
  readonly concurrency: number | null
}

/** `settings` are those of the worker; with none, everything is as it comes. */
export function signalboxLane(settings: Omit<WorkerOptions, 'handlers'>, keyed?: LaneKeys): OpenLane {
  return async (url): Promise<Lane> => {
    const box = await open(url, { migrate: true })
    const concurrency = keyed?.concurrency ?? null
    if (concurrency !== null) await box.jobs.setLimits('default', { perKey: { concurrency } })
    const keyOf = (number: number) => (keyed ? { limitKey: `tenant-${number % keyed.keys}` } : {})
    return {
      async addMany(numbers, filler) {
        await box.jobs.addMany(
          numbers.map((number) => ({ kind: 'noop', payload: payloadOf(number, filler), ...keyOf(number) })),
        )
      },
      async add(number) {
        await box.jobs.add('noop', { number })
      },
      async work(handle) {
        const worker = box.jobs.worker({
          ...settings,
          handlers: { noop: (job) => handle((job.payload as { number: number }).number) },
        })
        await worker.start()
        return { stop: () => worker.stop() }
      },
      async isEmpty() {
        const queues = await box.jobs.stats()
        return queues.every(
          ({ scheduled, ready, waiting, running }) => scheduled + ready + waiting + running === 0,
        )
      },
      [Symbol.asyncDispose]: () => box.close(),
    }
  }
}
