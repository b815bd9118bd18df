/**
 * Looking for jobs, and doing something to all that are found. One small grammar says which: fields, words, and what is
 * inside payloads. A search has a limit of jobs and time, and says when it stopped. A bulk operation is a job
 * itself: it outlives the process that began it, and shows its progress.
 *
 * Run it: npx node --conditions=source examples/search.ts
 */
import assert from 'node:assert/strict'
import { isSignalboxError, open } from 'signalbox'

await using box = await open('memory:')

await box.jobs.addMany(
  Array.from({ length: 200 }, (_, n) => ({
    kind: n % 2 === 0 ? 'mail.welcome' : 'mail.invoice',
    payload: { order: { id: n }, customer: { name: n === 42 ? 'Ann Lee' : 'Bob' } },
    tags: n % 10 === 0 ? ['vip'] : [],
    maxAttempts: 1,
  })),
)

// The relay is away for a while: half of the jobs die.
for (const job of await box.jobs.claim({ kinds: ['mail.invoice'], limit: 100 }))
  await box.jobs.nack(job, { error: new Error('The relay is away') })

// By what is inside the payload; two terms are both meant, a minus turns one round.
const ann = await box.jobs.list({ search: 'payload.customer.name:"Ann Lee" -state:dead' })
console.log('found', ann.items[0]?.payload, 'among', ann.scanned, 'jobs')
assert.equal(ann.items.length, 1)

// By kind, state, tag, time and error.
const dead = await box.jobs.list({ search: 'kind:mail.* state:dead error:relay created>-1h', limit: 10 })
assert.equal(dead.items.length, 10)
const important = await box.jobs.list({ search: 'tag:vip attempt:0' })
assert.equal(important.items.length, 20)

// A search that does not parse says where.
await box.jobs.list({ search: 'kind:mail colour:red' }).catch((error: unknown) => {
  assert.ok(isSignalboxError(error, 'invalid_argument'))
  console.log(error.message)
})

// How many would it be? Then do it.
const search = 'state:dead error:relay'
const { matched } = await box.jobs.bulk({ action: 'retry', search, dryRun: true })
console.log(matched, 'jobs would be retried')
const { id } = await box.jobs.bulk({ action: 'retry', search })
let operation = await box.jobs.bulkOperation(id)
while (operation?.state === 'running') {
  console.log(`${operation.done} of ${operation.matched} so far`)
  await new Promise((resolve) => setTimeout(resolve, 20))
  operation = await box.jobs.bulkOperation(id)
}
console.log(operation?.state, 'with', operation?.done, 'retried')
assert.deepEqual([operation?.state, operation?.done, operation?.skipped], ['completed', matched, 0])
assert.equal((await box.jobs.list({ search: 'state:dead' })).items.length, 0)
