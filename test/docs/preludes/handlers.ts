import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { box } from '../box.ts'
import { complete, until } from '../handler-job.ts'
import { check } from '../prelude.ts'

export * from '../box.ts'

/** The last job that a check added, for blocks that look at one. */
export let id: string

export async function send(_payload: unknown): Promise<void> {}

check('Typed kinds', async ({ values: { charge, worker } }) => {
  const wrong = box.jobs.add(charge, { orderId: 7 } as never)
  await assert.rejects(wrong, { code: 'invalid_argument' })
  await complete(worker, 3)
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
