/** Signalbox, by its public interface. It keeps the history of every job. */
import { Client } from 'pg'
import { type OpenOptions, open } from 'signalbox'
import type { WorkerOptions } from 'signalbox/jobs'
import { type Lane, type OpenLane, payloadOf } from './lane.ts'

/** The limit keys of the jobs, and their limit. */
export interface LaneKeys {
  /** The number of limit keys; jobs get them in turn. */
  readonly keys: number
  /** How many jobs of a key may run at once; null: the queue has no limits. */
  readonly concurrency: number | null
}

/** `settings` are the options of the worker. Without them, the worker has its defaults. */
export function signalboxLane(
  settings: Omit<WorkerOptions, 'handlers'>,
  keyed?: LaneKeys,
  options: OpenOptions = {},
): OpenLane {
  return async (url): Promise<Lane> => {
    const box = await open(url, { migrate: true, ...options })
    const probe = url.startsWith('postgres') ? new Client(url) : undefined
    await probe?.connect()
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
      // On Postgres, the statement of the peers: they do not count a long queue every millisecond either.
      async isEmpty() {
        if (probe !== undefined) return (await probe.query('SELECT FROM job_queue LIMIT 1')).rowCount === 0
        const queues = await box.jobs.stats()
        return queues.every(
          ({ scheduled, ready, waiting, running }) => scheduled + ready + waiting + running === 0,
        )
      },
      async [Symbol.asyncDispose]() {
        await probe?.end()
        await box.close()
      },
    }
  }
}
