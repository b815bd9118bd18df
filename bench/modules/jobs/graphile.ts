/** graphile-worker. It deletes a job when it is done and keeps no history; there is no setting that would. */
import { type AddJobsJobSpec, Logger, makeWorkerUtils, run } from 'graphile-worker'
import { Pool } from 'pg'
import { type Lane, type OpenLane, payloadOf } from './lane.ts'

/**
 * As tuned by trying: concurrency 24, a local queue of 1,000, acks in batches. `default` sets nothing: one job
 * at a time, a round trip to take it and one to end it. `fifty` runs as many handlers at once as Signalbox does beside it.
 */
const settings = {
  default: {},
  tuned: {
    concurrentJobs: 24,
    maxPoolSize: 10,
    localQueue: { size: 1_000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  fifty: {
    concurrentJobs: 50,
    maxPoolSize: 10,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
} as const

const silent = new Logger(() => () => undefined)

export function graphileLane(setting: keyof typeof settings): OpenLane {
  return async (connectionString): Promise<Lane> => {
    const utils = await makeWorkerUtils({ connectionString, logger: silent })
    await utils.migrate()
    const pool = new Pool({ connectionString, max: 1 })
    return {
      async addMany(numbers, filler) {
        await utils.addJobs(
          numbers.map(
            (number): AddJobsJobSpec => ({ identifier: 'noop', payload: payloadOf(number, filler) }),
          ),
        )
      },
      async add(number) {
        await utils.addJob('noop', { number })
      },
      async work(handle) {
        const runner = await run({
          connectionString,
          logger: silent,
          noHandleSignals: true,
          crontab: '',
          taskList: { noop: async (payload) => handle((payload as { number: number }).number) },
          preset: { worker: settings[setting] },
        })
        return { stop: () => runner.stop() }
      },
      async isEmpty() {
        const { rowCount } = await pool.query('SELECT 1 FROM graphile_worker._private_jobs LIMIT 1')
        return rowCount === 0
      },
      async [Symbol.asyncDispose]() {
        await utils.release()
        await pool.end()
      },
    }
  }
}
