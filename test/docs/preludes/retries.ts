import assert from 'node:assert/strict'
import type { HandlerJob } from 'signalbox/jobs'
import { box } from '../box.ts'
import { bury } from '../dead-letter.ts'
import { inHand, letGo } from '../handler-job.ts'
import { around, check } from '../prelude.ts'

export * from '../box.ts'

export let job: HandlerJob

const choose = 'Choose the wait, or give up'

around(async ({ key }) => {
  if (key === choose) job = await inHand(box)
  if (key === 'Dead letters') for (let count = 0; count < 3; count++) await bury(box, 'money')
  return letGo
})

export const status: number = 429
export const body: unknown = 'Try again later.'
check('Retries and dead letters', ({ output }) => assert.equal(output, 'sent at attempt 2\n'))
check('Set the number of attempts and the waits', async () => {
  const [charge] = (await box.jobs.list({ kind: 'charge', queue: 'default' })).items
  assert.deepEqual([charge?.maxAttempts, charge?.backoff.baseMs], [3, 30_000])
})
check(choose, async () => {
  const nacked = await box.jobs.find(job.id)
  assert.deepEqual([nacked?.state, nacked?.error?.message], ['scheduled', 'rate limited'])
  assert.ok(nacked!.runAt > Date.now() + 50_000)
})
check('Dead letters', async ({ values: { items } }) => {
  assert.equal(items.length, 3)
  assert.deepEqual((await box.jobs.list({ state: 'dead', queue: 'money' })).items, [])
})
