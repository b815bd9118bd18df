/**
 * Testing code that uses jobs, without a database server, a worker process or a wait: a box whose time moves by hand and
 * whose jobs run when told to. Written for node:test; the same lines work in vitest.
 *
 * Run it: npx node --conditions=source examples/testing.ts
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Box } from 'signalbox'
import { assertAdded, assertCompleted, assertDead, assertNotAdded, openTestBox } from 'signalbox/testing'

// ---- What is tested: an application that takes a box.

const bank = { isUp: true, charged: [] as number[] }

function startWorker(box: Pick<Box, 'jobs'>): void {
  void box.jobs
    .worker({
      handlers: {
        async charge(job) {
          if (!bank.isUp) throw new Error('the bank does not answer')
          bank.charged.push(job.payload.orderId)
          await box.jobs.add('receipt', { orderId: job.payload.orderId, to: 'ada@example.com' })
        },
        receipt: () => undefined,
      },
    })
    .start()
}

async function placeOrder(box: Pick<Box, 'jobs'>, orderId: number): Promise<void> {
  await box.jobs.add('charge', { orderId }, { maxAttempts: 3 })
  await box.jobs.add('remind', { orderId }, { delayMs: '7d' })
}

// ---- The tests.

test('an order is charged, and then a receipt is sent', async () => {
  await using box = await openTestBox({ mode: 'manual' })
  startWorker(box)
  await placeOrder(box, 7)
  await assertAdded(box, 'charge', { orderId: 7 }, { count: 1 })
  await assertNotAdded(box, 'receipt') // nothing has run yet

  assert.deepEqual(await box.drain(), { completed: 2, failed: 0, dead: 0, errors: [] })
  await assertCompleted(box, 'receipt', { orderId: 7 })
  assert.deepEqual(bank.charged, [7])
})

test('a bank that does not answer is asked three times, and then a person must look', async () => {
  await using box = await openTestBox({ mode: 'manual', at: new Date('2026-01-01') })
  startWorker(box)
  bank.isUp = false
  await placeOrder(box, 8)
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 1, dead: 0 })
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] }) // not due yet
  box.clock.advance('1m')
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 1, dead: 0 })
  box.clock.advance('1m')
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 0, dead: 1 })

  const [job] = await assertDead(box, 'charge', { orderId: 8 })
  assert.equal(job?.error?.message, 'the bank does not answer')
  bank.isUp = true
})

test('in inline mode an order is charged before placeOrder comes back, and throws what went wrong', async () => {
  await using box = await openTestBox({ mode: 'inline' })
  startWorker(box)
  await placeOrder(box, 9)
  await assertCompleted(box, 'receipt', { orderId: 9 })

  bank.isUp = false
  await assert.rejects(placeOrder(box, 10), /the bank does not answer/)
  bank.isUp = true
})

test('a payment and its receipt are committed together, or not at all', async () => {
  await using box = await openTestBox()
  box.database.exec('CREATE TABLE payment (order_id INTEGER)')
  box.jobs.worker({
    handlers: {
      pay: (job) =>
        job.transaction(async (tx) => {
          await tx.sql`INSERT INTO payment (order_id) VALUES (${job.payload.orderId})`
          await box.jobs.add('receipt', job.payload, { tx })
          if (!bank.isUp) throw new Error('the bank does not answer')
        }),
    },
  })
  const payments = box.database.prepare('SELECT order_id FROM payment')

  bank.isUp = false
  await box.jobs.add('pay', { orderId: 12 }, { maxAttempts: 1 })
  const { dead, errors } = await box.drain()
  assert.equal(dead, 1)
  assert.match(String(errors[0]?.error), /the bank does not answer/)
  assert.equal(payments.all().length, 0)
  await assertNotAdded(box, 'receipt')

  bank.isUp = true
  await box.jobs.add('pay', { orderId: 13 })
  await box.drain()
  assert.equal(payments.get()?.order_id, 13)
  await assertAdded(box, 'receipt', { orderId: 13 })
})

test('an assertion that does not hold says what is there instead', async () => {
  await using box = await openTestBox()
  await placeOrder(box, 11)
  await assert.rejects(assertAdded(box, 'charge', { orderId: 12 }), (error: Error) => {
    console.log(error.message)
    return /charge in "default", ready/.test(error.message)
  })
})
