import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../core/errors.ts'
import type { Added, NewJob } from '../job-store.ts'
import { createAddBatcher } from './add-batcher.ts'
import { resolveNewJob } from './add-options.ts'

const aJob = (): NewJob => resolveNewJob('add', 'mail', {}, {})

/** A store whose writes end when the test says so. */
function slowStore() {
  const writes: { jobs: readonly NewJob[]; end: () => void; fail: (error: unknown) => void }[] = []
  const add = (jobs: readonly NewJob[]) =>
    new Promise<readonly Added[]>((resolve, reject) => {
      const end = () => resolve(jobs.map(({ id }) => ({ id, duplicate: false })))
      writes.push({ jobs, end, fail: reject })
    })
  return { writes, add }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('adds made in one go are one write, each with its own answer', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const jobs = Array.from({ length: 50 }, aJob)
  const adds = jobs.map((job) => batcher.add(job))
  await turn()
  assert.equal(store.writes.length, 1)
  assert.deepEqual(store.writes[0]!.jobs, jobs)
  store.writes[0]!.end()
  assert.deepEqual(
    (await Promise.all(adds)).map(({ id }) => id),
    jobs.map(({ id }) => id),
  )
})

test('adds that come while two writes are under way go together in the next', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const first = batcher.add(aJob())
  await turn()
  const second = batcher.add(aJob())
  await turn()
  assert.equal(store.writes.length, 2)
  const rest = Array.from({ length: 20 }, () => batcher.add(aJob()))
  await turn()
  assert.equal(store.writes.length, 2)
  store.writes[1]!.end()
  await second
  await turn()
  assert.deepEqual(
    store.writes.map(({ jobs }) => jobs.length),
    [1, 1, 20],
  )
  store.writes[0]!.end()
  store.writes[2]!.end()
  await Promise.all([first, ...rest])
  // Nothing is left over: the next add is written at once.
  const last = batcher.add(aJob())
  await turn()
  store.writes[3]!.end()
  await last
})

test('a crowd is written by the thousand, in the order it came', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const jobs = Array.from({ length: 2_500 }, aJob)
  const adds = jobs.map((job) => batcher.add(job))
  for (let index = 0; index < 3; index++) {
    await turn()
    store.writes[index]!.end()
  }
  await Promise.all(adds)
  assert.deepEqual(
    store.writes.map(({ jobs: batch }) => batch.length),
    [1_000, 1_000, 500],
  )
  assert.deepEqual(
    store.writes.flatMap(({ jobs: batch }) => batch.map(({ id }) => id)),
    jobs.map(({ id }) => id),
  )
})

test('a write that fails is told to those in it, and the next ones go on', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const first = Promise.allSettled([batcher.add(aJob()), batcher.add(aJob())])
  await turn()
  store.writes[0]!.fail(new Error('disk full'))
  assert.deepEqual(
    (await first).map((outcome) => outcome.status === 'rejected' && (outcome.reason as Error).message),
    ['disk full', 'disk full'],
  )
  const next = batcher.add(aJob())
  await turn()
  store.writes[1]!.end()
  assert.equal((await next).duplicate, false)
})

test('what is wrong with one of several adds is told to that one alone', async () => {
  const bad = aJob()
  const written: string[] = []
  const batcher = createAddBatcher({
    async add(jobs) {
      if (jobs.includes(bad)) throw new SignalboxError('invalid_argument', 'no')
      written.push(...jobs.map(({ id }) => id))
      return jobs.map(({ id }) => ({ id, duplicate: false }))
    },
  })
  const good = aJob()
  const [first, second] = await Promise.allSettled([batcher.add(good), batcher.add(bad)])
  assert.deepEqual([first.status, second.status], ['fulfilled', 'rejected'])
  assert.deepEqual(written, [good.id])
})
