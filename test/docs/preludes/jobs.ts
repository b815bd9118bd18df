import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { PoolClient } from 'pg'
import { type Box, open, type Sealer } from 'signalbox'
import type { HandlerJob } from 'signalbox/jobs'
import type { TestBox } from 'signalbox/testing'
import { addresses } from '../addresses.ts'
import { complete, inHand, letGo, until } from '../handler-job.ts'
import { box, pool, url } from '../postgres-box.ts'
import { around, check } from '../prelude.ts'

export * from '../postgres-box.ts'

await pool.query('CREATE TABLE payment (order_id int, amount int, refunded boolean DEFAULT false)')
await pool.query('CREATE TABLE orders (id int)')

export let client: PoolClient
export let job: HandlerJob
/** The last job that was added by a check, for blocks that look at one. */
export let id: string

around(async ({ key }) => {
  client = await pool.connect()
  // What an earlier block added and nobody ran would be run by the workers of this one.
  const { items } = await box.jobs.list({ limit: 500 })
  await box.jobs.remove(items.filter(({ state }) => state === 'ready').map((item) => item.id))
  if (key === 'Failures, retries, dead letters') job = await inHand(box)
  if (key === 'Failures, retries, dead letters #2')
    for (let count = 0; count < 3; count++) await bury(box, 'money')
  if (key === 'The tables #2') await bury(box)
  if (key === 'The tables #3') await buryIn('sqlite:signalbox.db')
  if (key === 'The tables #4') await buryIn(addresses.mariadb!)
  return () => {
    letGo()
    client.release()
  }
})

/** Leaves a dead letter. */
async function bury(there: Box, queue = 'default'): Promise<void> {
  await there.jobs.add('charge', null, { queue })
  const [claimed] = await there.jobs.claim({ queues: [queue] })
  await there.jobs.nack(claimed!, { error: 'no funds', dead: true })
}
async function buryIn(where: string): Promise<void> {
  await using there = await open(where)
  await bury(there)
}

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

check('Adding jobs #2', async () => {
  assert.deepEqual((await pool.query('SELECT id FROM orders')).rows, [{ id: 7 }])
  const [charge] = (await box.jobs.list({ kind: 'charge', queue: 'default', limit: 1 })).items
  assert.deepEqual([charge?.state, charge?.payload], ['ready', { orderId: 7 }])
})

check('Typed kinds', async ({ values: { charge, worker } }) => {
  const wrong = box.jobs.add(charge, { orderId: 7 } as never)
  await assert.rejects(wrong, { code: 'invalid_argument' })
  await complete(worker, 3)
})

export const handlers: Readonly<Record<string, (job: HandlerJob) => unknown>> = { later: () => undefined }
check('Workers', ({ values: { worker } }) => {
  assert.equal(worker.ready, true)
  process.removeAllListeners('SIGTERM')
})

check('Progress and logs', async ({ values: { worker } }) => {
  id = (await box.jobs.add('import')).id
  await complete(worker, 1)
})
check('Progress and logs #2', ({ values: { job, items, cursor } }) => {
  const { percent, note, data, attempt } = job.progress
  assert.deepEqual([percent, note, data, attempt], [40, 'row 400 of 1000', { row: 400 }, 1])
  assert.deepEqual(Object.keys(items[0]), ['attempt', 'number', 'level', 'text', 'at'])
  assert.deepEqual([items.length, items[1].level, cursor], [2, 'warn', null])
})

let isThere = false
export const isReady = async (): Promise<boolean> => isThere
export const fetchReport = async (payload: unknown): Promise<unknown> => payload
check('Snooze', async ({ values: { worker } }) => {
  const added = await box.jobs.add('fetchReport')
  await worker.start()
  await worker.once('snoozed')
  assert.equal((await box.jobs.find(added.id))?.snoozeCount, 1)
  isThere = true
  await box.jobs.add('fetchReport')
  await worker.once('completed')
})

export const sendAll = async (
  payloads: readonly unknown[],
  _how: { signal: AbortSignal },
): Promise<readonly { ok: boolean; why?: string }[]> =>
  payloads.map((payload) => ({ ok: payload !== 'bad', why: 'bad' }))
check('Batches', async ({ values: { worker } }) => {
  const [good] = await box.jobs.addMany([
    { kind: 'mail', payload: 'good' },
    { kind: 'mail', payload: 'bad' },
  ])
  const failed = worker.once('failed')
  await worker.start()
  const { job: bad } = await failed
  assert.equal(bad.payload, 'bad')
  await until(async () => (await box.jobs.find(good!.id))?.state === 'completed')
})

process.env.JOBS_KEY_2026_01 = randomBytes(32).toString('base64')
const kept = new Map<string, Uint8Array>()
export const kms = {
  encrypt(plain: Uint8Array, { jobId, part }: { jobId: string; part: string }): Uint8Array {
    kept.set(`${jobId} ${part}`, plain)
    return new TextEncoder().encode('sealed')
  },
  decrypt: (_sealed: Uint8Array, { jobId, part }: { jobId: string; part: string }): Uint8Array =>
    kept.get(`${jobId} ${part}`)!,
} as const
check('Sealed payloads', async ({ values: { sealer } }) => {
  await assertSeals(sealer)
})
check('Sealed payloads #2', async ({ values: { sealer } }) => {
  await assertSeals(sealer)
  assert.equal(kept.size, 1)
})
async function assertSeals(sealer: Sealer): Promise<void> {
  await using sealed = await open(url, { jobs: { sealer } })
  const added = await sealed.jobs.add('secret', { pin: 1234 })
  assert.deepEqual((await sealed.jobs.find(added.id))?.payload, { pin: 1234 })
  assert.doesNotMatch(JSON.stringify((await box.jobs.find(added.id))?.payload), /1234/)
}

export const bytes: Uint8Array = randomBytes(100)
const objects = new Map<string, Uint8Array>()
export const bucket: {
  put(key: string, bytes: Uint8Array): Promise<void>
  get(key: string, how: { signal: AbortSignal }): Promise<Uint8Array>
} = {
  put: async (key, value) => void objects.set(key, value),
  get: async (key) => objects.get(key)!,
}
export const resize = async (image: Uint8Array, width: number): Promise<Uint8Array> =>
  image.subarray(0, width)
check('Large payloads, by reference', async ({ values: { key, worker } }) => {
  await complete(worker, 1)
  const [done] = (await box.jobs.list({ kind: 'resize', limit: 1 })).items
  assert.deepEqual((await box.jobs.find(done!.id))?.result, { key: `${key}-800` })
  assert.equal(objects.size, 2)
})

export const startWorker = (there: TestBox): unknown =>
  there.jobs.worker({ handlers: { charge: () => 'charged' } })
export const placeOrder = (there: TestBox, orderId: number): Promise<unknown> =>
  there.jobs.add('charge', { orderId })

export const status: number = 429
export const body: unknown = 'Try again later.'
check('Failures, retries, dead letters', async () => {
  const nacked = await box.jobs.find(job.id)
  assert.deepEqual([nacked?.state, nacked?.error?.message], ['scheduled', 'rate limited'])
  assert.ok(nacked!.runAt > Date.now() + 50_000)
})
check('Failures, retries, dead letters #2', async ({ values: { items } }) => {
  assert.equal(items.length, 3)
  assert.deepEqual((await box.jobs.list({ state: 'dead', queue: 'money' })).items, [])
})

const isBuried = ({ output }: { output: string }) => {
  const { queue, kind, attempt, reason, at } = JSON.parse(output.split('\n')[0]!)
  assert.deepEqual([queue, kind, attempt, reason], ['default', 'charge', 1, 'no funds'])
  assert.match(at, /^20\d\d-/)
}
for (const number of [2, 3, 4]) check(`The tables #${number}`, isBuried)
