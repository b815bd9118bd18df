/** pg-boss. It keeps finished jobs in the same table for a week, as it does unless told otherwise. */
import { Pool } from 'pg'
import { PgBoss } from 'pg-boss'
import type { Lane, OpenLane } from './lane.ts'

export const queue = 'noop'

/**
 * Tuned by trying: a separate partition, notify on, 4 workers of 500 jobs that fetch on while batches are full. Without
 * settings it runs one job every two seconds.
 */
const tuned = { batchSize: 500, localConcurrency: 4, burstWhenBatchFull: true } as const

export async function openBoss(connectionString: string, max: number): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString, max, useListenNotify: true })
  // Without a listener its warnings would end the process; what matters comes as a rejection.
  boss.on('error', () => undefined)
  await boss.start()
  if (!(await boss.getQueue(queue))) await boss.createQueue(queue, { partition: true, notify: true })
  return boss
}

export const pgBossLane: OpenLane = async (url): Promise<Lane> => {
  const boss = await openBoss(url, 10)
  const pool = new Pool({ connectionString: url, max: 1 })
  return {
    addMany: (numbers) => bossAddMany(boss, numbers),
    async add(number) {
      await boss.send(queue, { number })
    },
    async work(handle) {
      await boss.work<{ number: number }>(queue, tuned, async (jobs) => {
        for (const job of jobs) handle(job.data.number)
      })
      return { stop: () => boss.offWork(queue) }
    },
    isEmpty: () => bossIsEmpty(pool),
    async [Symbol.asyncDispose]() {
      await boss.stop({ graceful: false })
      await pool.end()
    },
  }
}

export async function bossAddMany(boss: PgBoss, numbers: readonly number[]): Promise<void> {
  await boss.insert(
    queue,
    numbers.map((number) => ({ data: { number } })),
  )
}

export async function bossIsEmpty(pool: Pool): Promise<boolean> {
  const { rowCount } = await pool.query(`SELECT 1 FROM pgboss.job WHERE state < 'completed' LIMIT 1`)
  return rowCount === 0
}
