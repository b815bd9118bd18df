import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { bury } from '../dead-letter.ts'
import { around, check } from '../prelude.ts'

export { box } from '../box.ts'

export let id: string

around(async ({ key }) => {
  if (key === 'Attempts and error groups') for (let count = 0; count < 7; count++) await bury(box, 'charge')
  if (key === 'Attempts') await bury(box, 'charge')
  id = (await box.jobs.list({ state: 'dead' })).items[0]?.id ?? ''
})

check('Attempts and error groups', async ({ values: { items, search } }) => {
  assert.equal(items.length, 1)
  assert.match(search as string, /^state:dead error\.group:[0-9a-f]{16}$/)
  assert.equal((await box.jobs.bulkOperations()).length, 2)
})
check('Attempts', ({ output, values: { job } }) => {
  assert.equal(job.attempts.length, 1)
  assert.match(output, /^1 dead /)
})
