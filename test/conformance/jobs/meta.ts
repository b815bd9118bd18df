import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claimOne,
  endedJob,
  find,
  lapsedJob,
  longMs,
  runningJob,
  settleOne,
  verdictOf,
} from './making.ts'

/** JSON text that a store must not reorder, shorten or rewrite. */
const meta = '{ "tags": ["b", "a", "ä", "🚂"], "\\u0061": 1.0, "a": 1e2, "a": "\\u0000" }'

/** The meta of a job stays as it was given, for the job's whole life. */
export function metaContract({ open }: Candidate): void {
  test('the meta of a job is found, listed and claimed byte for byte', async () => {
    await using backend = await open()
    const id = await addOne(backend, { meta })
    assert.equal((await find(backend, id)).meta, meta)
    assert.deepEqual(
      (await backend.jobs.list({ limit: 10 })).map((job) => job.meta),
      [meta],
    )
    assert.equal((await claimOne(backend)).meta, meta)
    assert.equal((await find(backend, id)).meta, meta)
  })

  test('a job without meta has none, also in one call with a job that has some', async () => {
    await using backend = await open()
    const jobs = [aJob(), aJob({ meta }), aJob()]
    await backend.jobs.add(jobs)
    const found = await Promise.all(jobs.map(({ id }) => find(backend, id)))
    assert.deepEqual(
      found.map((job) => job.meta),
      [null, meta, null],
    )
    assert.equal((await claimOne(backend)).meta, null)
  })

  test('a job keeps its meta when it ends in any state and when it is retried', async () => {
    await using backend = await open()
    for (const state of ['completed', 'dead', 'cancelled'] as const) {
      const id = await endedJob(backend, state, { meta })
      assert.equal((await find(backend, id)).meta, meta, state)
      await backend.jobs.retry(id)
      const claimed = await claimOne(backend)
      assert.deepEqual([claimed.id, claimed.meta], [id, meta], state)
      await backend.jobs.transact(async () => verdictOf(claimed), { timeoutMs: 60_000 })
      assert.equal((await find(backend, id)).meta, meta, `${state}, then completed in a transaction`)
    }
    const waiting = await addOne(backend, { meta, due: { delayMs: longMs } })
    await backend.jobs.cancel(waiting)
    assert.equal((await find(backend, waiting)).meta, meta)
  }, 30_000)

  test('a job keeps its meta when it is handed back and when its lease expires', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, { meta })
    await settleOne(backend, claimed, { state: 'ready' })
    const again = await claimOne(backend)
    assert.deepEqual([again.id, again.meta], [claimed.id, meta])
    await settleOne(backend, again)
    const { id } = await lapsedJob(backend, { meta, maxAttempts: 1 })
    await backend.jobs.reclaim(10)
    const { state, meta: kept } = await find(backend, id)
    assert.deepEqual([state, kept], ['dead', meta])
  })

  test('a job that is added as claimed has its meta', async () => {
    await using backend = await open()
    // Not every engine can do that.
    if (!backend.jobs.addClaimed) return
    const request = { queues: ['mail'], kinds: null, workerId: 'w1', limit: 1, leaseMs: longMs }
    const claimed = await backend.jobs.addClaimed(aJob({ meta }), request)
    assert.equal(claimed?.meta, meta)
    assert.equal((await find(backend, claimed.id)).meta, meta)
  })

  test('long meta is stored whole', async () => {
    await using backend = await open()
    const long = JSON.stringify({
      tags: Array.from({ length: 20 }, () => '🚂'.repeat(64)),
      more: 'x'.repeat(70_000),
    })
    const id = await addOne(backend, { meta: long })
    assert.equal((await find(backend, id)).meta, long)
  })
}
