import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../../../core/fake-clock.ts'
import type { NewWorker } from '../../../fleet/workers/index.ts'
import { open } from '../../../index.ts'
import { findWorkerProblems } from './overview.ts'

const minute = 60_000

/**
 * A box whose queue has one job that waits for two minutes, and the problems as they are found there, in steps of 20 s.
 */
async function behind(...workers: readonly Partial<NewWorker>[]) {
  const clock = createFakeClock()
  const box = await open('memory:', { clock, contention: false })
  await box.jobs.add('welcome', {}, { queue: 'mail' })
  clock.advance(2 * minute)
  const { workers: store } = box.backend
  await store.join(
    workers.map((worker, nr) => aWorker({ id: `w${nr}`, session: `s${nr}`, ...worker })),
    30_000,
  )
  let nowMs = 0
  return {
    box,
    clock,
    async problems() {
      const lines = (await box.jobs.stats()).filter(({ ready }) => ready > 0)
      const found = await findWorkerProblems(store, lines, { behindMs: minute, nowMs })
      nowMs += 20_000
      return found.problems.map(({ kind, subject, count }) => [kind, subject, count])
    },
    [Symbol.asyncDispose]: () => box.close(),
  }
}

function aWorker(worker: Partial<NewWorker>): NewWorker {
  return {
    ...{ id: 'w', workerId: 'w', session: 's', boot: 'b', via: 'library', host: null, pid: null },
    ...{ queues: ['mail'], kinds: ['welcome'], schemas: {}, concurrency: 1, release: null, version: null },
    ...{ ageMs: 0, mode: 'running', running: [], runningCount: 0 },
    ...worker,
  }
}

test('a queue without a worker is a problem once nothing has moved for a while', async () => {
  await using stage = await behind({ queues: ['other'] })
  assert.deepEqual(await stage.problems(), [])
  assert.deepEqual(await stage.problems(), [['no_worker', 'mail', 1]])
})

test('a queue with running jobs or a changing oldest job has a worker, which may have no row', async () => {
  await using stage = await behind()
  const { box, clock } = stage
  assert.deepEqual(await stage.problems(), [])
  await box.jobs.add('welcome', {}, { queue: 'mail' })
  const [job] = await box.jobs.claim({ queues: ['mail'], leaseMs: '1h' })
  clock.advance(2 * minute)
  assert.deepEqual(await stage.problems(), [], 'one runs')
  await box.jobs.ack(job!)
  assert.deepEqual(await stage.problems(), [], 'the oldest is another one')
  assert.deepEqual(await stage.problems(), [['no_worker', 'mail', 1]])
})

test('quiet workers and workers that are gone do not serve a queue', async () => {
  await using quiet = await behind({ mode: 'quiet' })
  await quiet.problems()
  assert.deepEqual(await quiet.problems(), [['no_worker', 'mail', 1]])
  await using gone = await behind({})
  gone.clock.advance(minute)
  await gone.problems()
  assert.deepEqual(await gone.problems(), [['no_worker', 'mail', 1]])
})

test('a kind that no worker of the queue knows is a problem', async () => {
  await using stage = await behind({ kinds: ['sms'] }, { queues: ['other'] })
  assert.deepEqual(await stage.problems(), [])
  assert.deepEqual(await stage.problems(), [['unknown_kind', 'welcome', 1]])
  await using known = await behind({ kinds: ['sms'] }, { kinds: ['welcome'] })
  await known.problems()
  assert.deepEqual(await known.problems(), [])
  await using any = await behind({ kinds: null, via: 'http' })
  await any.problems()
  assert.deepEqual(await any.problems(), [])
})
