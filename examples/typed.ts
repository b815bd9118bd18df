/**
 * A kind of job with a schema. The schema says what the payload is: to TypeScript, to `add`, and to the handler. What
 * does not fit is refused where it is added; what was added before the schema changed ends dead, with the reason,
 * instead of running on half a payload. Any library that speaks Standard Schema will do; this one is zod.
 *
 * Run it: npx node --conditions=source examples/typed.ts
 */
import assert from 'node:assert/strict'
import { defineJob, isSignalboxError, open } from 'signalbox'
import * as z from 'zod'

// In a shared module, which the program that adds and the program that works both import.
const charge = defineJob('charge', {
  schema: z.object({
    orderId: z.number().int(),
    amount: z.number().positive(),
    currency: z.string().length(3).default('EUR'),
    due: z.iso.datetime().transform((text) => new Date(text)),
  }),
  queue: 'money', // options for every job of the kind that says nothing else
  maxAttempts: 3,
})

await using box = await open('memory:')

// The payload is typed by what the schema takes …
await box.jobs.add(charge, { orderId: 7, amount: 1200, due: '2026-01-01T12:00:00Z' })
await box.jobs.addMany([
  charge.job({ orderId: 8, amount: 10, currency: 'CHF', due: '2026-01-02T12:00:00Z' }),
  charge.job({ orderId: 9, amount: 20, due: '2026-01-03T12:00:00Z' }, { priority: 5 }),
])

// … and checked by it. Nothing is written of what does not fit.
try {
  await box.jobs.add(charge, { orderId: 7.5, amount: -1, due: 'tomorrow' })
  assert.fail('it was added')
} catch (error) {
  if (!isSignalboxError(error, 'invalid_argument')) throw error
  console.log('refused:', error.details.issues)
}

// An older program added this, without a schema.
const { id: oldId } = await box.jobs.add('charge', { order: 6 }, { queue: 'money', priority: -1 })

const worker = box.jobs.worker({
  queues: ['money'],
  concurrency: 1,
  handlers: [
    // The handler's payload is what the schema makes of it: `due` is a Date, `currency` is there.
    charge.handle(async ({ payload }) => {
      console.log(`charging ${payload.amount} ${payload.currency}, due in ${payload.due.getUTCFullYear()}`)
    }),
  ],
})
const failed = worker.once('failed')
await worker.start()
await failed

const old = await box.jobs.find(oldId)
console.log(`the old one is ${old?.state} after ${old?.attempt} attempt: ${old?.error?.message}`)
assert.equal(worker.counts.completed, 3)
assert.deepEqual([old?.state, old?.attempt, old?.error?.code], ['dead', 1, 'invalid_payload'])
