import assert from 'node:assert/strict'
import { test } from 'vitest'
import { expiredError } from '../../../src/storage/token.ts'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
  find,
  ids,
  lapse,
  lapsedJob,
  runningJob,
  settleOne,
  shortMs,
} from './making.ts'

/** A reclaimed job returns to its position in the queue, or is dead when it has no attempts left. */
export function reclaimingContract({ open }: Candidate): void {
  const nothing = { ready: 0, dead: 0, cancelled: 0 }

  test('a job whose lease expired is reclaimed as ready, with the same position and attempt', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend, { due: { runAt: 4_000 }, maxAttempts: 3 })
    assert.deepEqual(await backend.jobs.reclaim(10), { ...nothing, ready: 1 })
    const { state, attempt, runAt, leaseEndsAt, finishedAt } = await find(backend, claimed.id)
    assert.deepEqual(
      { state, attempt, runAt, leaseEndsAt, finishedAt },
      { state: 'ready', attempt: 1, runAt: 4_000, leaseEndsAt: null, finishedAt: null },
    )
    assert.deepEqual(await backend.jobs.reclaim(10), nothing)
    assert.equal((await claimOne(backend)).attempt, 2)
  })

  test('a job that kills its workers is dead after exactly its allowed attempts', async () => {
    await using backend = await open()
    const id = await addOne(backend, { maxAttempts: 3 })
    for (let grant = 1; grant <= 3; grant++) {
      const claimed = await claimOne(backend, { leaseMs: shortMs })
      assert.equal(claimed.attempt, grant)
      await lapse(backend, claimed)
      assert.deepEqual(
        await backend.jobs.reclaim(10),
        grant < 3 ? { ...nothing, ready: 1 } : { ...nothing, dead: 1 },
      )
    }
    const job = await find(backend, id)
    assert.equal(job.state, 'dead')
    assert.equal(job.attempt, 3)
    assert.equal(job.error, expiredError)
    assert.equal(job.result, null)
    assert.ok(job.finishedAt !== null && job.finishedAt >= job.startedAt!)
    assert.equal(job.workerId, 'w1')
    assert.deepEqual(await claim(backend), [])
  })

  test('a claim itself marks jobs without attempts left as dead', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend, { maxAttempts: 1 })
    assert.deepEqual(await claim(backend), [])
    const { state } = await find(backend, claimed.id)
    assert.equal(state, 'dead')
    await backend.jobs.reclaim(10)
    assert.equal((await find(backend, claimed.id)).error, expiredError)
  })

  test('a live lease is not reclaimed', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await runningJob(backend, { queue: 'other' })
    assert.deepEqual(await backend.jobs.reclaim(10), nothing)
    assert.equal((await find(backend, claimed.id)).state, 'running')
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('a reclaim takes back at most as many jobs as asked for', async () => {
    await using backend = await open()
    await backend.jobs.add(Array.from({ length: 7 }, (_, i) => aJob({ maxAttempts: i < 3 ? 1 : 2 })))
    const claimed = await claim(backend, { leaseMs: shortMs })
    await lapse(backend, ...claimed)
    let [ready, dead] = [0, 0]
    for (const count of [3, 3, 1, 0]) {
      const taken = await backend.jobs.reclaim(3)
      assert.equal(taken.ready + taken.dead, count)
      ready += taken.ready
      dead += taken.dead
    }
    assert.deepEqual({ ready, dead }, { ready: 4, dead: 3 })
  })

  test('of several concurrent reclaims, one takes back each job', async () => {
    await using backend = await open()
    await backend.jobs.add(Array.from({ length: 20 }, () => aJob()))
    const claimed = await claim(backend, { limit: 20, leaseMs: shortMs })
    await lapse(backend, ...claimed)
    const taken = await Promise.all(Array.from({ length: 5 }, () => backend.jobs.reclaim(100)))
    const ready = taken.reduce((sum, counts) => sum + counts.ready, 0)
    // A reclaim that skips locked jobs may leave some for the next sweep.
    const rest = await backend.jobs.reclaim(100)
    assert.equal(ready + rest.ready, 20)
    assert.deepEqual(ids(await claim(backend, { limit: 100 })).sort(), ids(claimed).sort())
  })
}
