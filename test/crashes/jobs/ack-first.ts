import assert from 'node:assert/strict'
import type { Ground } from '../ground.ts'
import { type Counts, createStage } from '../stage.ts'

export interface AckFirstOptions {
  readonly seed: number
  readonly jobs: number
}

/**
 * Handlers ack in their own transaction and work for three more leases before they commit. The ack was in time, so the
 * first attempt's commit counts. Other jobs keep their leases, because a renewal waits for no transaction. On SQLite such
 * a transaction holds the only write lock: there other jobs may run again, and only the single effect is promised.
 */
export async function ackFirst(ground: Ground, { seed, jobs }: AckFirstOptions): Promise<Counts> {
  const alone = ground.engine === 'sqlite'
  const leaseMs = alone ? 500 : 1_500
  await using stage = await createStage(ground, { seed, leaseMs, concurrency: 8 })
  const long = { maxAttempts: 100, backoff: { baseMs: 30, maxMs: 300 } }
  await stage.startWorkers(2)
  await stage.add(
    Array.from({ length: jobs }, () => ({ kind: 'ackfirst', payload: { insideMs: 3 * leaseMs }, ...long })),
  )
  await stage.add(
    Array.from({ length: jobs }, () => ({ kind: 'plain', payload: { beforeMs: 4 * leaseMs }, ...long })),
  )
  await stage.drain(60_000)
  const again = (await stage.store.list({ limit: 500 })).filter(({ attempt }) => attempt !== 1)
  if (!alone) assert.deepEqual(again, [], 'every job is done by its first attempt')
  return { 'done again': again.length, ...(await stage.finish({ everyGrantSeen: true })) }
}
