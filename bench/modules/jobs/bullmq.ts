/**
 * BullMQ, on Redis and on Postgres. Finished jobs stay by its default; tuned, as its users do, they are removed. It
 * reaches Redis by node-redis, which the tests have anyway.
 */
import { createClient } from '@redis/client'
import { createNodeRedisClient, createPostgresBackend, Queue, Worker, withBackend } from 'bullmq'
import type { Lane, OpenLane } from './lane.ts'

const name = 'noop'

/** As tuned by trying: 200 at a time on Redis, 32 on Postgres. `default` sets nothing: one at a time. */
const settings = {
  default: { redis: {}, postgres: {} },
  tuned: {
    redis: { concurrency: 200, removeOnComplete: { count: 0 } },
    postgres: { concurrency: 32, removeOnComplete: { count: 0 } },
  },
} as const

type Payload = { number: number }

/** What its queues on either store have in common, less their type arguments. */
type AnyQueue = Pick<Queue<Payload>, 'addBulk' | 'add' | 'getJobCounts' | 'close'> & {
  on(event: 'error', listener: (error: Error) => void): unknown
}

interface AnyWorker {
  on(event: 'error', listener: (error: Error) => void): unknown
  waitUntilReady(): Promise<unknown>
  close(): Promise<void>
}

export function bullRedisLane(setting: keyof typeof settings): OpenLane {
  return async (url) => {
    const raw = createClient({ url })
    await raw.connect()
    const connection = createNodeRedisClient(raw)
    // A server that goes away at the end of the trial must not end the process that has its figures.
    connection.on('error', () => undefined)
    return laneOf(
      new Queue<Payload>(name, { connection }),
      (handle) =>
        new Worker<Payload>(name, async ({ data }) => handle(data.number), {
          connection,
          ...settings[setting].redis,
        }),
    )
  }
}

export function bullPostgresLane(setting: keyof typeof settings): OpenLane {
  return async (connectionString) => {
    const connection = { connectionString, migrate: true }
    const { Queue, Worker } = withBackend(createPostgresBackend)
    const queue = new Queue<Payload>(name, { connection })
    await queue.waitUntilReady()
    return laneOf(
      queue,
      (handle) =>
        new Worker<Payload>(name, async ({ data }) => handle(data.number), {
          connection,
          ...settings[setting].postgres,
        }),
    )
  }
}

function laneOf(queue: AnyQueue, createWorker: (handle: (number: number) => void) => AnyWorker): Lane {
  queue.on('error', () => undefined)
  return {
    async addMany(numbers) {
      await queue.addBulk(numbers.map((number) => ({ name, data: { number } })))
    },
    async add(number) {
      await queue.add(name, { number })
    },
    async work(handle) {
      const worker = createWorker(handle)
      worker.on('error', () => undefined)
      await worker.waitUntilReady()
      return { stop: () => worker.close() }
    },
    async isEmpty() {
      const counts = await queue.getJobCounts('wait', 'active', 'delayed', 'prioritized')
      return Object.values(counts).every((count) => count === 0)
    },
    [Symbol.asyncDispose]: () => queue.close(),
  }
}
