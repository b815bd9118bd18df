import assert from 'node:assert/strict'
import type { Backend } from '../../../src/storage/backend.ts'
import { addOne, claim, endedJob, ids, lapsedJob, leaseOf, longMs, runningJob, settleOne } from './making.ts'

/** Jobs of one namespace in every state; no call of another namespace sees or changes them. */
export async function keepApart(mine: Backend, yours: Backend): Promise<void> {
  const running = await runningJob(mine, { queue: 'a', uniqueKey: 'k' })
  const lapsed = await lapsedJob(mine, { queue: 'b' })
  const dead = await endedJob(mine, 'dead', { queue: 'c' })
  const ready = await addOne(mine, { uniqueKey: 'r' })
  const before = await mine.jobs.list({ limit: 10 })

  await yours.jobs.pause('mail')
  assert.deepEqual(await claim(yours, { queues: ['a', 'b', 'c', 'mail'] }), [])
  assert.deepEqual(await yours.jobs.list({ limit: 10 }), [])
  for (const id of [running.id, lapsed.id, dead, ready]) {
    assert.equal(await yours.jobs.find(id), undefined)
    assert.equal(await yours.jobs.cancel(id), undefined)
    assert.equal(await yours.jobs.retry(id), undefined)
  }
  assert.equal(await yours.jobs.retryDead({ limit: 10 }), 0)
  assert.equal(await yours.jobs.prune({ olderThanMs: 0, limit: 10 }), 0)
  assert.deepEqual(await yours.jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 0 })
  assert.deepEqual(await yours.jobs.renew([leaseOf(running)], longMs), [])
  assert.equal(await settleOne(yours, running), false)
  assert.deepEqual(await yours.jobs.outcomes([leaseOf(running)]), ['lost'])
  await addOne(yours, { uniqueKey: 'r' })
  assert.equal((await yours.jobs.stats()).length, 1)

  assert.deepEqual(await mine.jobs.list({ limit: 10 }), before)
  assert.deepEqual(ids(await claim(mine)), [ready])
  assert.equal(await settleOne(mine, running), true)
}
