/** A box for tests: time that moves by hand, jobs that run when told to. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import * as z from 'zod'
import { within } from '../../test/support/deadline.ts'
import { isSignalboxError } from '../core/errors.ts'
import { open } from '../index.ts'
import { defineJob } from '../jobs/index.ts'
import { openTestBox } from './index.ts'

const at = Date.UTC(2026, 0, 1)

test('in manual mode nothing runs before drain, which then runs all due jobs in order', async () => {
  await using box = await openTestBox({ mode: 'manual', at })
  const ran: unknown[] = []
  const worker = box.jobs.worker({ handlers: { note: (job) => ran.push(job.payload) } })
  await worker.start()
  await box.jobs.addMany([
    { kind: 'note', payload: 'low', priority: -1 },
    { kind: 'note', payload: 'high', priority: 5 },
    { kind: 'note', payload: 'later', delayMs: '5m' },
    { kind: 'unhandled', payload: 'other' },
  ])
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(ran, [])
  assert.deepEqual(await box.drain(), { completed: 2, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(ran, ['high', 'low'])
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  box.clock.advance('5m')
  assert.deepEqual(await box.drain(), { completed: 1, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(worker.counts.completed, 3)
})

test('drain runs schedules that are due by the clock', async () => {
  await using box = await openTestBox({ at })
  const ran: unknown[] = []
  box.jobs.worker({ handlers: { report: (job) => ran.push(job.schedule) } })
  await box.jobs.schedules.set('daily', { cron: '0 9 * * *', catchUp: 'all', job: { kind: 'report' } })
  assert.deepEqual(await box.drain({ withScheduled: true }), { completed: 0, failed: 0, dead: 0, errors: [] })
  box.clock.advance('2d')
  assert.deepEqual(await box.drain(), { completed: 2, failed: 0, dead: 0, errors: [] })
  const nine = at + 9 * 3_600_000
  assert.deepEqual(ran, [
    { name: 'daily', slotAt: nine },
    { name: 'daily', slotAt: nine + 86_400_000 },
  ])
})

test('the clock is the store’s: every event has its time', async () => {
  await using box = await openTestBox({ at: new Date(at) })
  const { id } = await box.jobs.add('note', null, { delayMs: '1h' })
  box.jobs.worker({ handlers: { note: () => box.clock.advance('10s') } })
  box.clock.advance('1h')
  await box.drain()
  const job = await box.jobs.find(id)
  assert.deepEqual(
    [job?.createdAt, job?.runAt, job?.startedAt, job?.finishedAt],
    [at, at + 3_600_000, at + 3_600_000, at + 3_610_000],
  )
  // And of the other rooms, too.
  const claim = async () => (await box.once.claim('event', { leaseMs: '1m' })).status
  assert.equal(await claim(), 'run')
  assert.equal(await claim(), 'running')
  box.clock.advance('61s')
  assert.equal(await claim(), 'run')
})

test('a failed job is retried only when the clock says so, until it is dead', async () => {
  await using box = await openTestBox({ at })
  let attempts = 0
  box.jobs.worker({
    handlers: {
      fails() {
        attempts++
        throw new Error('no')
      },
    },
  })
  const { id } = await box.jobs.add('fails', null, { maxAttempts: 3, backoff: { baseMs: 60_000, jitter: 0 } })
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 1, dead: 0 })
  box.clock.advance('59s')
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  box.clock.advance('1s')
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 1, dead: 0 })
  box.clock.advance('2m')
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 0, dead: 1 })
  assert.equal(attempts, 3)
  assert.equal((await box.jobs.find(id))?.state, 'dead')
})

test('drain can move the clock itself to the next due job, also past a paused queue', async () => {
  await using box = await openTestBox({ at })
  const ran: [unknown, number][] = []
  box.jobs.worker({
    queues: ['default', 'still'],
    handlers: {
      note: (job) => ran.push([job.payload, box.clock.now() - at]),
      fails(job) {
        if (job.attempt < 3) throw new Error('not yet')
      },
    },
  })
  await box.jobs.pause('still')
  await box.jobs.addMany([
    { kind: 'note', payload: 'day', delayMs: '1d' },
    { kind: 'note', payload: 'hour', delayMs: '1h' },
    { kind: 'note', payload: 'paused', delayMs: '2h', queue: 'still' },
    { kind: 'fails', backoff: { jitter: 0 } },
    { kind: 'unhandled', delayMs: '7d' },
  ])
  assert.partialDeepStrictEqual(await box.drain({ withScheduled: true }), {
    completed: 3,
    failed: 2,
    dead: 0,
  })
  assert.deepEqual(ran, [
    ['hour', 3_600_000],
    ['day', 86_400_000],
  ])
  assert.equal(box.clock.now(), at + 86_400_000)
})

test('drain can run one queue, and stops at its limit', async () => {
  await using box = await openTestBox({ at })
  box.jobs.worker({ queues: ['a', 'b'], handlers: { note: () => undefined } })
  for (const queue of ['a', 'a', 'a', 'b']) await box.jobs.add('note', null, { queue })
  assert.deepEqual(await box.drain({ queue: 'b' }), { completed: 1, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(await box.drain({ limit: 2 }), { completed: 2, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(await box.drain({ queue: 'none' }), { completed: 0, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(await box.drain(), { completed: 1, failed: 0, dead: 0, errors: [] })
})

test('a job that adds itself endlessly ends the drain with too_many', async () => {
  await using box = await openTestBox({ at })
  box.jobs.worker({ handlers: { again: () => box.jobs.add('again') } })
  await box.jobs.add('again')
  await assert.rejects(box.drain(), (error) => isSignalboxError(error, 'too_many'))
  assert.deepEqual(await box.drain({ limit: 5 }), { completed: 5, failed: 0, dead: 0, errors: [] })
})

test('a thousand jobs do not count as endless', async () => {
  await using box = await openTestBox({ at })
  box.jobs.worker({ handlers: { note: () => undefined } })
  await box.jobs.addMany(Array.from({ length: 1_000 }, () => ({ kind: 'note' })))
  assert.deepEqual(await box.drain(), { completed: 1_000, failed: 0, dead: 0, errors: [] })
})

test('a handler that never ends is named when the drain’s own time is over', async () => {
  await using box = await openTestBox({ at })
  const worker = box.jobs.worker({ handlers: { stuck: () => new Promise(() => undefined) } })
  await box.jobs.add('stuck')
  await assert.rejects(
    within(10_000, 'the drain ended', box.drain({ timeoutMs: 20 })),
    (error) => isSignalboxError(error, 'timeout') && /\(stuck\)/.test(error.message),
  )
  await worker.stop({ graceMs: 0 })
})

test('a time-out of a job follows the clock of the test', async () => {
  await using box = await openTestBox({ at })
  const begun = Promise.withResolvers<void>()
  box.jobs.worker({
    handlers: {
      slow: (_, { signal }) => {
        begun.resolve()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    },
  })
  const { id } = await box.jobs.add('slow', null, { timeoutMs: '1m', maxAttempts: 1 })
  const draining = box.drain()
  await begun.promise
  box.clock.advance('59s')
  assert.equal((await box.jobs.find(id))?.state, 'running')
  box.clock.advance('1s')
  assert.partialDeepStrictEqual(await draining, { completed: 0, failed: 0, dead: 1 })
  assert.equal((await box.jobs.find(id))?.error?.code, 'timeout')
})

test('a cancellation request reaches the handler’s signal', async () => {
  await using box = await openTestBox({ at })
  const begun = Promise.withResolvers<void>()
  box.jobs.worker({
    handlers: {
      slow: (_, { signal }) => {
        begun.resolve()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    },
  })
  const { id } = await box.jobs.add('slow')
  const draining = box.drain()
  await begun.promise
  assert.deepEqual(await box.jobs.cancel(id), { state: 'running', cancelRequested: true })
  assert.partialDeepStrictEqual(await draining, { completed: 0, failed: 1, dead: 0 })
  assert.equal((await box.jobs.find(id))?.state, 'cancelled')
})

test('a handler keeps its job however far the clock is moved, and may end it itself', async () => {
  await using box = await openTestBox({ at })
  box.jobs.worker({
    handlers: {
      async acks(job) {
        box.clock.advance('365d')
        await job.ack({ result: 'mine' })
      },
      nacks: (job) => job.nack({ error: 'no', dead: true }),
      commits: (job) => job.transaction(() => 'committed'),
    },
  })
  const added = await box.jobs.addMany([{ kind: 'acks' }, { kind: 'nacks' }, { kind: 'commits' }])
  assert.partialDeepStrictEqual(await box.drain(), { completed: 2, failed: 0, dead: 1 })
  const jobs = await Promise.all(added.map(({ id }) => box.jobs.find(id)))
  assert.deepEqual(
    jobs.map((job) => job?.result ?? job?.error?.message),
    ['mine', 'no', 'committed'],
  )
})

test('drain waits for a handler that continues after it ended its job', async () => {
  await using box = await openTestBox({ at })
  let isOver = false
  box.jobs.worker({
    handlers: {
      async acks(job) {
        await job.ack()
        for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
        isOver = true
      },
    },
  })
  await box.jobs.add('acks')
  assert.deepEqual(await box.drain(), { completed: 1, failed: 0, dead: 0, errors: [] })
  assert.equal(isOver, true)
})

test('in inline mode add returns after its job, and the jobs that this added, have run', async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  const ran: string[] = []
  const parent = defineJob('parent', { schema: z.object({ name: z.string() }) })
  box.jobs.worker({
    handlers: [
      parent.handle(async (job) => {
        await box.jobs.add('child', job.payload.name)
        ran.push('parent')
      }),
      { kind: 'child', handler: (job) => ran.push(`child of ${job.payload}`) },
    ],
  })
  const { id } = await box.jobs.add(parent, { name: 'Ada' })
  assert.deepEqual(ran, ['child of Ada', 'parent'])
  assert.equal((await box.jobs.find(id))?.state, 'completed')
})

test("in inline mode add throws the handler's error, and the job stays failed", async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  const declined = new Error('card declined')
  box.jobs.worker({
    handlers: {
      charge() {
        throw declined
      },
      nacks: (job) => job.nack({ error: { name: 'Declined', message: 'by hand', code: 'E1' } }),
      fine: () => undefined,
    },
  })
  await assert.rejects(box.jobs.add('charge'), (error) => error === declined)
  await assert.rejects(box.jobs.add('nacks'), { name: 'Declined', message: 'by hand', code: 'E1' })
  await assert.rejects(
    box.jobs.addMany([{ kind: 'fine' }, { kind: 'charge' }, { kind: 'fine' }]),
    (error) => error === declined,
  )
  const { items } = await box.jobs.list()
  assert.deepEqual(items.map(({ kind, state }) => `${kind} ${state}`).reverse(), [
    'charge scheduled',
    'nacks scheduled',
    'fine completed',
    'charge scheduled',
    'fine completed',
  ])
  box.clock.advance('1h')
  assert.partialDeepStrictEqual(await box.drain(), { completed: 0, failed: 3, dead: 0 })
})

test('in inline mode jobs that are not due, paused or unhandled stay queued', async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  let ran = 0
  box.jobs.worker({ handlers: { note: () => void ran++ } })
  await box.jobs.add('note', null, { delayMs: '1m' })
  await box.jobs.add('unhandled')
  await box.jobs.add('note', null, { queue: 'elsewhere' })
  assert.equal(ran, 0)
  box.clock.advance('1m')
  assert.deepEqual(await box.drain(), { completed: 1, failed: 0, dead: 0, errors: [] })
})

test('in inline mode jobs added at once each get their own answer', async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  box.jobs.worker({
    handlers: {
      async odd(job) {
        await new Promise((resolve) => setImmediate(resolve))
        if (job.payload % 2 === 0) throw new Error(`${job.payload} is even`)
      },
    },
  })
  const added = await Promise.allSettled(Array.from({ length: 300 }, (_, n) => box.jobs.add('odd', n)))
  for (const [n, { status, ...rest }] of added.entries()) {
    assert.equal(status, n % 2 === 0 ? 'rejected' : 'fulfilled', `${n}`)
    if ('reason' in rest) assert.equal(rest.reason.message, `${n} is even`)
  }
})

test('in inline mode a job that adds its own kind endlessly ends with too_many', async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  box.jobs.worker({ handlers: { again: () => box.jobs.add('again') } })
  await assert.rejects(box.jobs.add('again'), (error) => isSignalboxError(error, 'too_many'))
})

test('in inline mode an add with a taken key does not wait', async () => {
  await using box = await openTestBox({ mode: 'inline', at })
  const seen: boolean[] = []
  box.jobs.worker({
    handlers: {
      single: async () => {
        seen.push((await box.jobs.add('single', null, { uniqueKey: 'one' })).duplicate)
      },
    },
  })
  await box.jobs.add('single', null, { uniqueKey: 'one' })
  assert.deepEqual(seen, [true])
})

test('a stopped worker’s handlers are gone, and a closed box runs nothing', async () => {
  const box = await openTestBox({ at })
  const worker = box.jobs.worker({ handlers: { note: () => undefined } })
  assert.equal(worker.ready, false)
  await worker.start()
  assert.equal(worker.ready, true)
  await worker.stop()
  await assert.rejects(worker.start(), (error) => isSignalboxError(error, 'closed'))
  await box.jobs.add('note')
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  await box.close()
  await assert.rejects(box.drain(), (error) => isSignalboxError(error, 'closed'))
  assert.throws(
    () => box.jobs.worker({ handlers: { note: () => undefined } }),
    (error) => isSignalboxError(error, 'closed'),
  )
  await assert.rejects(box.jobs.add('note'), (error) => isSignalboxError(error, 'closed'))
})

test('only memory and SQLite accept a clock, and unknown options are refused', async () => {
  const refused = (error: unknown) => isSignalboxError(error, 'invalid_argument')
  const clock = { now: () => 1 }
  await assert.rejects(open('postgres://127.0.0.1:1/none', { clock }), refused)
  await assert.rejects(open('sqlite:none.db', { clock, thread: true }), refused)
  await assert.rejects(open('memory:', { clock: {} as never }), refused)
  await assert.rejects(openTestBox({ mode: 'sometimes' as never }), refused)
  await assert.rejects(openTestBox({ at: 'now' as never }), refused)
  await using box = await openTestBox()
  for (const options of [{ queues: 'a' }, { limit: 0 }, { withScheduled: 1 }, { queue: '' }])
    await assert.rejects(box.drain(options as never), refused)
  assert.throws(() => box.clock.advance('soon' as never), refused)
})

test('a handler that hangs does not delay the end of its test', async () => {
  const box = await openTestBox()
  const { promise: aborted, resolve } = Promise.withResolvers<void>()
  box.jobs.worker({
    handlers: {
      hangs: (_, { signal }) => {
        signal.addEventListener('abort', () => resolve())
        return new Promise(() => undefined)
      },
    },
  })
  await box.jobs.add('hangs')
  await assert.rejects(box.drain({ timeoutMs: 20 }), { code: 'timeout' })
  await within(5_000, 'the box is closed', box.close())
  await within(5_000, 'the handler is told', aborted)
})
