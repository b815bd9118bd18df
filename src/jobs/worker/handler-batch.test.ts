/** Handlers that take several jobs at once. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import * as z from 'zod'
import { within } from '../../../test/support/deadline.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { open } from '../../index.ts'
import { openMemory } from '../../storage/memory/index.ts'
import { openTestBox } from '../../testing/index.ts'
import { createJobs } from '../api/create-jobs.ts'
import { defineJob } from '../api/define-job.ts'
import type { Jobs } from '../api/jobs-api.ts'
import type { ClaimRequest } from '../job-store.ts'
import type { HandlerJob } from './handler-job.ts'

async function statesOf(jobs: Jobs, added: readonly { readonly id: string }[]): Promise<unknown[]> {
  return Promise.all(added.map(async ({ id }) => (await jobs.find(id))?.state))
}

function numbered(count: number): { kind: string; payload: number; maxAttempts: number }[] {
  return Array.from({ length: count }, (_, payload) => ({ kind: 'send', payload, maxAttempts: 1 }))
}

test('a batch takes up to its size of its kind, and returning completes all its jobs', async () => {
  await using box = await openTestBox()
  const sizes: number[] = []
  box.jobs.worker({
    handlers: {
      send: { batch: { size: 4 }, runBatch: (jobs) => void sizes.push(jobs.length) },
      other: () => 'done alone',
    },
  })
  const added = await box.jobs.addMany([...numbered(10), { kind: 'other' }])
  assert.deepEqual(await box.drain(), { completed: 11, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(sizes, [4, 4, 2])
  assert.deepEqual(new Set(await statesOf(box.jobs, added)), new Set(['completed']))
})

test('one outcome per job ends each in its own way: by position, by id, or like allSettled', async () => {
  const failed = new Error('no such address')
  const ways: ((jobs: readonly HandlerJob[]) => unknown)[] = [
    () => ['sent', failed, { id: 3 }],
    (jobs) =>
      new Map<string, unknown>([
        [jobs[0]!.id, 'sent'],
        [jobs[1]!.id, failed],
        [jobs[2]!.id, { id: 3 }],
      ]),
    () => Promise.allSettled([Promise.resolve('sent'), Promise.reject(failed), Promise.resolve({ id: 3 })]),
  ]
  for (const runBatch of ways) {
    await using box = await openTestBox()
    box.jobs.worker({ handlers: { send: { batch: { size: 3 }, runBatch } } })
    const added = await box.jobs.addMany(numbered(3))
    assert.partialDeepStrictEqual(await box.drain(), { completed: 2, failed: 0, dead: 1 })
    const jobs = await Promise.all(added.map(({ id }) => box.jobs.find(id)))
    assert.deepEqual(
      jobs.map((job) => [job?.state, job?.result, job?.error?.message]),
      [
        ['completed', 'sent', undefined],
        ['dead', null, 'no such address'],
        ['completed', { id: 3 }, undefined],
      ],
    )
  }
})

test('a throw fails all jobs that were not ended singly, and an array of another length is refused', async () => {
  await using box = await openTestBox()
  box.jobs.worker({
    handlers: {
      send: {
        batch: { size: 4 },
        async runBatch(jobs) {
          await jobs[0]?.ack({ result: 'by itself' })
          await jobs[1]?.nack({ error: 'by itself', dead: true })
          await jobs[2]?.snooze('1h')
          throw new Error('the rest')
        },
      },
      count: { batch: { size: 2 }, runBatch: () => [1] },
    },
  })
  const added = await box.jobs.addMany(numbered(4))
  await box.drain()
  const jobs = await Promise.all(added.map(({ id }) => box.jobs.find(id)))
  assert.deepEqual(
    jobs.map((job) => [job?.state, job?.result ?? job?.error?.message ?? null]),
    [
      ['completed', 'by itself'],
      ['dead', 'by itself'],
      ['scheduled', null],
      ['dead', 'the rest'],
    ],
  )
  const [counted] = await box.jobs.addMany([{ kind: 'count', maxAttempts: 1 }, { kind: 'count' }])
  await box.drain()
  const error = (await box.jobs.find(counted!.id))?.error
  assert.deepEqual(
    [error?.code, /array of 1 for 2 jobs/.test(error?.message ?? '')],
    ['invalid_argument', true],
  )
})

test('a batch counts as one of the worker’s concurrency, and the worker claims the jobs it lacks', async () => {
  await using box = await open('memory:')
  const sizes: number[] = []
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let running = 0
  let mostAtOnce = 0
  const worker = box.jobs.worker({
    concurrency: 2,
    handlers: {
      send: {
        batch: { size: 50 },
        async runBatch(jobs) {
          mostAtOnce = Math.max(mostAtOnce, ++running)
          sizes.push(jobs.length)
          await new Promise((later) => setImmediate(later))
          running--
          if (sizes.reduce((sum, size) => sum + size) === 200) resolve()
        },
      },
    },
  })
  await box.jobs.addMany(numbered(200))
  await worker.start()
  await within(10_000, 'all were done', done)
  await worker.stop()
  assert.equal(worker.counts.completed, 200)
  assert.ok(mostAtOnce <= 2, `${mostAtOnce} ran at once`)
  // The first claim brings as many as there are places; the batch claims the rest.
  assert.deepEqual([Math.max(...sizes), sizes.length <= 5], [50, true], `sizes ${sizes}`)
})

test('a batch waits for more jobs as long as configured, and starts as soon as it is full', async () => {
  await using box = await open('memory:')
  const batches: unknown[][] = []
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    concurrency: 3,
    handlers: {
      send: {
        batch: { size: 3, waitMs: 60_000 },
        runBatch(jobs) {
          batches.push(jobs.map(({ payload }) => payload as unknown))
          resolve()
        },
      },
    },
  })
  await worker.start()
  for (const job of numbered(3)) {
    await box.jobs.add(job.kind, job.payload)
    await new Promise((later) => setTimeout(later, 20))
  }
  await within(10_000, 'the batch was full', done)
  assert.deepEqual(
    batches.map((batch) => batch.toSorted()),
    [[0, 1, 2]],
  )
  // One that still waits when the worker stops is handed back, free.
  const { id } = await box.jobs.add('send', 3)
  await within(
    5_000,
    'it was claimed',
    (async () => {
      while ((await box.jobs.find(id))?.state !== 'running')
        await new Promise((later) => setTimeout(later, 5))
    })(),
  )
  await within(5_000, 'the worker stopped', worker.stop())
  const job = await box.jobs.find(id)
  assert.deepEqual([job?.state, job?.attempt, batches.length], ['ready', 0, 1])
})

test('jobs that the worker claims for other slots join a batch that waits for more', async () => {
  const memory = await openMemory({ namespace: 'test', migrate: true })
  // Claims for a batch find nothing, so its jobs can come only by the worker's claims.
  const store = new Proxy(memory.jobs, {
    get: (target, name) =>
      name === 'claim'
        ? (request: ClaimRequest) => (request.kinds?.length === 1 ? [] : target.claim(request))
        : (Reflect.get(target, name) as () => unknown)?.bind(target),
  })
  await using jobs = createJobs({ store, notifier: memory.notifier })
  const { promise: sizes, resolve } = Promise.withResolvers<number>()
  const worker = jobs.worker({
    concurrency: 3,
    pollMs: 20,
    handlers: {
      send: { batch: { size: 3, waitMs: 60_000 }, runBatch: (batch) => resolve(batch.length) },
      other: () => undefined,
    },
  })
  await worker.start()
  for (const { kind, payload } of numbered(3)) await jobs.add(kind, payload)
  assert.equal(await within(10_000, 'the batch was full', sizes), 3)
  await worker.stop()
  await memory.close()
})

test('cancelling one job aborts only its signal; the batch’s signal aborts when all are cancelled', async () => {
  await using box = await open('memory:')
  const { promise: begun, resolve: begin } = Promise.withResolvers<readonly HandlerJob[]>()
  const signals: string[] = []
  const worker = box.jobs.worker({
    handlers: {
      send: {
        batch: { size: 2 },
        async runBatch(jobs, { signal }) {
          begin(jobs)
          const aborted = (which: AbortSignal, name: string) =>
            new Promise<void>((resolve) =>
              which.addEventListener('abort', () => resolve(void signals.push(name)), { once: true }),
            )
          const all = aborted(signal, 'all')
          await aborted(jobs[0]!.signal, 'first')
          signals.push(`${jobs[1]!.signal.aborted} ${signal.aborted}`)
          await box.jobs.cancel(jobs[1]!.id)
          await all
          signal.throwIfAborted()
        },
      },
    },
  })
  const added = await box.jobs.addMany(numbered(2))
  await worker.start()
  const jobs = await within(5_000, 'it began', begun)
  assert.deepEqual(await box.jobs.cancel(jobs[0]!.id), { state: 'running', cancelRequested: true })
  await within(
    10_000,
    'both ended',
    (async () => {
      while ((await statesOf(box.jobs, added)).some((state) => state === 'running'))
        await new Promise((later) => setTimeout(later, 5))
    })(),
  )
  assert.deepEqual(signals, ['first', 'false false', 'all'])
  assert.deepEqual(await statesOf(box.jobs, added), ['cancelled', 'cancelled'])
})

test('a job that times out fails alone, and its batch continues with the others', async () => {
  await using box = await openTestBox()
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
  box.jobs.worker({
    handlers: {
      send: {
        batch: { size: 2 },
        async runBatch() {
          begin()
          await gate
        },
      },
    },
  })
  const [hasty, patient] = await box.jobs.addMany([
    { kind: 'send', timeoutMs: 100, maxAttempts: 1 },
    { kind: 'send' },
  ])
  const drained = box.drain()
  await begun
  box.clock.advance(101)
  open()
  assert.partialDeepStrictEqual(await drained, { completed: 1, failed: 0, dead: 1 })
  assert.equal((await box.jobs.find(hasty!.id))?.error?.code, 'timeout')
  assert.equal((await box.jobs.find(patient!.id))?.state, 'completed')
})

test('a job whose lease is lost leaves its batch alone, and the handler ends the others', async () => {
  await using box = await open('memory:')
  const calls: unknown[][] = []
  const { promise: done, resolve } = Promise.withResolvers<void>()
  const worker = box.jobs.worker({
    ...{ concurrency: 1, leaseMs: 4_500, pollMs: 20 },
    handlers: {
      send: {
        batch: { size: 4 },
        async runBatch(jobs, { signal }) {
          calls.push(jobs.map(({ payload }) => payload))
          if (calls.length === 1) {
            const { id, token, signal: own } = jobs[1]!
            // As somebody else does who has its token: it is in line again.
            await box.jobs.nack({ id, token }, { handBack: true })
            const lost = new Promise((heard) => own.addEventListener('abort', heard))
            await within(10_000, 'its loss is heard', lost)
            assert.equal(signal.aborted, false)
          }
          return jobs.map(({ payload }) => (payload === 2 ? new Error('no') : `done ${payload}`))
        },
      },
    },
  })
  let ended = 0
  const count = () => ++ended === 4 && resolve()
  worker.on('completed', count)
  worker.on('failed', count)
  const added = await box.jobs.addMany(numbered(4))
  await worker.start()
  await within(20_000, 'all ended', done)
  await worker.stop()
  assert.deepEqual(calls, [[0, 1, 2, 3], [1]])
  assert.deepEqual(await statesOf(box.jobs, added), ['completed', 'completed', 'dead', 'completed'])
  const results = await Promise.all(added.map(async ({ id }) => (await box.jobs.find(id))?.result))
  assert.deepEqual(results, ['done 0', 'done 1', null, 'done 3'])
  assert.deepEqual([worker.counts.lost, worker.load.running], [1, 0])
})

test("a defined kind’s batch gets the schema's output of each payload, and no invalid one", async () => {
  await using box = await openTestBox()
  const price = defineJob('price', { schema: z.object({ amount: z.number().transform((n) => n * 2) }) })
  const seen: number[][] = []
  box.jobs.worker({
    handlers: [
      price.handle({
        batch: { size: 3 },
        runBatch(jobs) {
          seen.push(jobs.map((job) => job.payload.amount))
          return jobs.map((job) => job.payload.amount)
        },
      }),
    ],
  })
  const added = await box.jobs.addMany([
    price.job({ amount: 1 }),
    { kind: 'price', payload: 'three' },
    price.job({ amount: 3 }),
  ])
  assert.partialDeepStrictEqual(await box.drain(), { completed: 2, failed: 0, dead: 1 })
  const jobs = await Promise.all(added.map(({ id }) => box.jobs.find(id)))
  assert.deepEqual(seen, [[2, 6]])
  assert.deepEqual(
    jobs.map((job) => job?.result ?? job?.error?.code),
    [2, 'invalid_payload', 6],
  )
})

test('an invalid batch is refused where it is written', async () => {
  await using box = await openTestBox()
  const runBatch = () => undefined
  for (const wrong of [
    { batch: { size: 0 }, runBatch },
    { batch: { size: 501 }, runBatch },
    { batch: 50, runBatch },
    { batch: { size: 2, waitMs: '2m' }, runBatch },
    { batch: { size: 2 } },
    { runBatch },
    { batch: { size: 2 }, runBatch, run: runBatch },
  ]) {
    assert.throws(
      () => box.jobs.worker({ handlers: { send: wrong as never } }),
      (error) => isSignalboxError(error, 'invalid_argument') && /worker\.handlers\.send/.test(error.message),
    )
  }
})
