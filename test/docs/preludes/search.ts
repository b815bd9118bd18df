import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { around, check } from '../prelude.ts'

export { box } from '../box.ts'

// A dead letter that the page's search means, and one that it does not.
around(async () => {
  const payload = { customer: { name: 'Ann Lee' } }
  await box.jobs.add('mail.welcome', payload, { maxAttempts: 1 })
  await box.jobs.add('invoice', payload, { maxAttempts: 1 })
  for (const job of await box.jobs.claim({ limit: 2 }))
    await box.jobs.nack(job, { error: 'the relay is away' })
})

check('Search and bulk actions', async ({ values: { page, matched, operation } }) => {
  assert.deepEqual(
    page.items.map(({ kind }: { kind: string }) => kind),
    ['mail.welcome'],
  )
  assert.equal(matched, 2)
  assert.equal(typeof operation.id, 'string')
})
check('Bulk #2', async () => {
  const { items } = await box.jobs.list({ search: 'state:dead error:relay' })
  assert.deepEqual(items, [])
})
