import assert from 'node:assert/strict'
import type { PoolClient } from 'pg'
import type { HandlerJob } from 'signalbox/jobs'
import { complete } from '../handler-job.ts'
import { box, pool } from '../postgres-box.ts'
import { around, check } from '../prelude.ts'

export * from '../postgres-box.ts'

await pool.query('CREATE TABLE payment (order_id int, amount int, refunded boolean DEFAULT false)')
await pool.query('CREATE TABLE orders (id int)')

export let client: PoolClient

around(async () => {
  client = await pool.connect()
  // Otherwise the workers of this block run the jobs that an earlier block added.
  const { items } = await box.jobs.list({ limit: 500 })
  await box.jobs.remove(items.filter(({ state }) => state === 'ready').map((item) => item.id))
  return () => client.release()
})

const sent: unknown[] = []
export async function send(payload: unknown, _how?: { signal: AbortSignal }): Promise<void> {
  sent.push(payload)
}

check('First job', ({ output }) => assert.equal(output, 'Hello, Ada!\n'))

check('Three ways to finish', async ({ values: { worker } }) => {
  await box.jobs.add('charge', { orderId: 7, amount: 1200 })
  await complete(worker, 1)
  await box.jobs.add('refund', { orderId: 7 })
  await box.jobs.add('mail', { to: 'ada' })
  await complete(worker, 2)
  const { rows } = await pool.query('SELECT * FROM payment')
  assert.deepEqual(rows, [{ order_id: 7, amount: 1200, refunded: true }])
  assert.deepEqual(sent, [{ to: 'ada' }])
})

check('Adding jobs', async ({ values }) => {
  assert.equal(values.duplicate, false)
  assert.equal((await box.jobs.find(values.id))?.queue, 'money')
  const { items } = await box.jobs.list({ kind: 'mail', limit: 2 })
  assert.deepEqual(items.map(({ state }) => state).toSorted(), ['ready', 'scheduled'])
})

check('In your transaction', async () => {
  assert.deepEqual((await pool.query('SELECT id FROM orders')).rows, [{ id: 7 }])
  const [charge] = (await box.jobs.list({ kind: 'charge', queue: 'default', limit: 1 })).items
  assert.deepEqual([charge?.state, charge?.payload], ['ready', { orderId: 7 }])
})

export const handlers: Readonly<Record<string, (job: HandlerJob) => unknown>> = { later: () => undefined }
check('Workers', ({ values: { worker } }) => {
  assert.equal(worker.ready, true)
  process.removeAllListeners('SIGTERM')
})
