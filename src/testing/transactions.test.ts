/** Handlers that write rows and end their jobs in one transaction, tested in a test box. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'vitest'
import { isSignalboxError } from '../core/errors.ts'
import {
  assertAdded,
  assertCompleted,
  assertDead,
  assertNotAdded,
  openTestBox,
  type TestBox,
} from './index.ts'

const at = Date.UTC(2026, 0, 1)

/**
 * A shop: paying writes a row, adds the job of its receipt and completes, all at once; a card may be declined after
 * that.
 */
async function openShop(options: Parameters<typeof openTestBox>[0] = {}): Promise<TestBox> {
  const box = await openTestBox({ at, ...options })
  box.database.exec('CREATE TABLE payment (order_id INTEGER, amount INTEGER) STRICT')
  box.jobs.worker({
    handlers: {
      charge: (job) =>
        job.transaction(async (tx) => {
          const { orderId, amount, card } = job.payload
          await tx.sql`INSERT INTO payment (order_id, amount) VALUES (${orderId}, ${amount})`
          await box.jobs.add('receipt', { orderId }, { tx })
          if (card === 'declined') throw new Error('the card was declined')
          const { rows } = await tx.query('SELECT count(*) AS paid FROM payment WHERE order_id = ?', [
            orderId,
          ])
          return rows[0]
        }),
      receipt: () => undefined,
    },
  })
  return box
}

const paid = (box: TestBox) =>
  box.database
    .prepare('SELECT order_id FROM payment')
    .all()
    .map(({ order_id }) => order_id)

test('rows, added jobs and the end of the job are committed together', async () => {
  await using box = await openShop()
  await box.jobs.add('charge', { orderId: 7, amount: 1_200 })
  assert.deepEqual(await box.drain(), { completed: 2, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(paid(box), [7])
  const [job] = await assertCompleted(box, 'charge', { orderId: 7 })
  assert.deepEqual([job?.result, job?.finishedAt], [{ paid: 1 }, at])
  await assertCompleted(box, 'receipt', { orderId: 7 })
})

test('rows and added jobs are rolled back together, and drain returns the error', async () => {
  await using box = await openShop()
  const { id } = await box.jobs.add('charge', { orderId: 8, amount: 1, card: 'declined' }, { maxAttempts: 2 })
  const { errors, ...counts } = await box.drain()
  assert.deepEqual(counts, { completed: 0, failed: 1, dead: 0 })
  assert.deepEqual(
    errors.map(({ error, ...run }) => [run, (error as Error).message]),
    [[{ id, kind: 'charge', attempt: 1, state: 'scheduled' }, 'the card was declined']],
  )
  assert.deepEqual(paid(box), [])
  await assertNotAdded(box, 'receipt')
  // The back-off is by the clock of the test.
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  box.clock.advance('1m')
  const last = await box.drain()
  assert.deepEqual([last.dead, last.errors[0]?.attempt, last.errors[0]?.state], [1, 2, 'dead'])
  await assertDead(box, 'charge', { orderId: 8 })
  assert.deepEqual(paid(box), [])
})

test('add and ack take part in a transaction of the test’s own, and roll back with it', async () => {
  await using box = await openTestBox({ at })
  const { database } = box
  database.exec('CREATE TABLE refund (order_id INTEGER) STRICT')
  box.jobs.worker({
    handlers: {
      async refund(job) {
        database.exec('BEGIN IMMEDIATE')
        database.prepare('INSERT INTO refund VALUES (?)').run(job.payload.orderId)
        await job.ack({ tx: database, result: 'refunded' })
        database.exec(job.payload.commits ? 'COMMIT' : 'ROLLBACK')
        if (!job.payload.commits) throw new Error('changed my mind')
      },
    },
  })
  for (const end of ['ROLLBACK', 'COMMIT']) {
    database.exec('BEGIN IMMEDIATE')
    await box.jobs.add('refund', { orderId: 7, commits: true }, { tx: database })
    database.exec(end)
  }
  await assertAdded(box, 'refund', { orderId: 7 }, { count: 1 })
  await box.jobs.add('refund', { orderId: 8, commits: false })
  const { errors, ...counts } = await box.drain()
  assert.deepEqual(counts, { completed: 1, failed: 1, dead: 0 })
  assert.match(String(errors[0]?.error), /changed my mind/)
  assert.deepEqual(
    database
      .prepare('SELECT * FROM refund')
      .all()
      .map(({ order_id }) => order_id),
    [7],
  )
  const [done] = await assertCompleted(box, 'refund', { orderId: 7 })
  assert.equal(done?.result, 'refunded')
})

test('in inline mode add returns after a transactional handler, and the jobs that it added, have run', async () => {
  await using box = await openShop({ mode: 'inline' })
  await box.jobs.add('charge', { orderId: 7, amount: 1_200 })
  await assertCompleted(box, 'receipt', { orderId: 7 })
  assert.deepEqual(paid(box), [7])
  await assert.rejects(box.jobs.add('charge', { orderId: 8, amount: 1, card: 'declined' }), /declined/)
  assert.deepEqual(paid(box), [7])
  await assertAdded(box, 'receipt', undefined, { count: 1 })
})

test('in inline mode the error of a job that a handler added with tx is thrown, too', async () => {
  await using box = await openTestBox({ mode: 'inline' })
  box.jobs.worker({
    handlers: {
      charge: (job) => job.transaction((tx) => box.jobs.add('receipt', null, { tx })),
      receipt() {
        throw new Error('no printer')
      },
    },
  })
  await assert.rejects(box.jobs.add('charge'), /no printer/)
  await assertCompleted(box, 'charge')
})

test('the errors of drain are the errors that handlers threw or nacked', async () => {
  await using box = await openTestBox({ at })
  const boom = new TypeError('boom')
  box.jobs.worker({
    handlers: {
      throws() {
        throw boom
      },
      nacks: (job) => job.nack({ error: { error: 'declined', amount: 5 }, dead: true }),
    },
  })
  await box.jobs.addMany([{ kind: 'throws' }, { kind: 'nacks' }])
  const { errors } = await box.drain()
  assert.equal(errors[0]?.error, boom)
  const said = errors[1]?.error as Error & { details: unknown }
  assert.ok(said instanceof Error)
  assert.deepEqual([said.message, said.details], ['declined', { error: 'declined', amount: 5 }])
})

test('locks, guards and leases of jobs claimed by hand follow the clock of the test', async () => {
  await using box = await openTestBox({ at })
  const held = await box.locks.acquire({ operation: 'deploy', resource: 'shop', node: 'a', ttlMs: '1m' })
  assert.deepEqual(held.status === 'granted' && held.expiresAt, at + 60_000)
  const other = { operation: 'deploy', resource: 'shop', node: 'b', wait: false }
  assert.equal((await box.locks.acquire(other)).status, 'refused')
  assert.equal((await box.once.claim('order:7', { leaseMs: '1m' })).status, 'run')
  await box.jobs.add('mail')
  const [job] = await box.jobs.claim({ leaseMs: '1m' })
  assert.equal(job?.leaseEndsAt, at + 60_000)
  box.clock.advance('61s')
  assert.equal((await box.locks.acquire(other)).status, 'granted')
  assert.equal((await box.once.claim('order:7')).status, 'run')
  await assert.rejects(box.jobs.ack(job!), { code: 'lease_lost' })
  // In a transaction of the test's own the clock is the same.
  const [again] = await box.jobs.claim({ leaseMs: '1m' })
  box.database.exec('BEGIN IMMEDIATE')
  await box.jobs.ack(again!, { tx: box.database })
  box.database.exec('COMMIT')
  assert.equal((await box.jobs.find(again!.id))?.finishedAt, at + 61_000)
})

test('closing a test box deletes its database, and keeps a file of yours', async () => {
  const box = await openTestBox()
  const file = box.database.location()!
  assert.ok(existsSync(file))
  await box.close()
  assert.equal(existsSync(dirname(file)), false)
  assert.throws(() => box.database, { code: 'closed' })

  await using outer = await openTestBox()
  const mine = join(dirname(outer.database.location()!), 'mine.db')
  const first = await openTestBox({ url: `sqlite:${mine}`, at })
  await first.jobs.add('kept')
  await first.close()
  await using second = await openTestBox({ url: `sqlite:${mine}`, at })
  await assertAdded(second, 'kept')
})

test('on memory: there are no tables, and other stores are refused', async () => {
  await using box = await openTestBox({ url: 'memory:' })
  assert.throws(
    () => box.database,
    (error) => isSignalboxError(error, 'transaction_unsupported'),
  )
  for (const url of ['postgres://db/shop', 'sqlite', 5])
    await assert.rejects(openTestBox({ url: url as never }), { code: 'invalid_argument' })
})
