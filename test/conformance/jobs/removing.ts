import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  endedJob,
  find,
  ids,
  lapse,
  lapsedJob,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  shortMs,
} from './making.ts'

/** A removed job is gone for every call. A running job stays. */
export function removingContract({ open, lend }: Candidate): void {
  test('waiting and ended jobs are removed, running jobs stay', async () => {
    await using backend = await open()
    const ended = [
      await endedJob(backend, 'completed'),
      await endedJob(backend, 'dead'),
      await endedJob(backend, 'cancelled'),
    ]
    const running = await runningJob(backend)
    const ready = await addOne(backend)
    const scheduled = await addOne(backend, { due: { delayMs: longMs } })
    const spared = await addOne(backend, { queue: 'other' })
    const gone = [...ended, ready, scheduled]

    const removed = await backend.jobs.remove([...gone, running.id, 'unknown', ready])
    assert.deepEqual(removed.toSorted(), gone.toSorted())
    assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })).sort(), [running.id, spared].sort())
    assert.deepEqual(await backend.jobs.remove(gone), [])

    assert.equal(await settleOne(backend, running), true)
    assert.deepEqual(await backend.jobs.remove([running.id]), [running.id])
  })

  test('a removed job is gone for every call', async () => {
    await using backend = await open()
    const id = await addOne(backend, { priority: 1 })
    const dead = await endedJob(backend, 'dead', { queue: 'mail', priority: 2 })
    assert.equal((await backend.jobs.remove([id, dead])).length, 2)
    for (const each of [id, dead]) {
      assert.equal(await backend.jobs.find(each), undefined)
      assert.equal(await backend.jobs.cancel(each), undefined)
      assert.equal(await backend.jobs.retry(each), undefined)
    }
    assert.equal(await backend.jobs.retryDead({ limit: 10 }), 0)
    assert.deepEqual(await claim(backend), [])
    const counts = await backend.jobs.stats()
    assert.ok(counts.every(({ ready, dead: lost }) => ready + lost === 0))
  })

  test('a job whose lease expired is removed, and its worker can no longer settle it', async () => {
    await using backend = await open()
    const lapsed = await lapsedJob(backend)
    const asked = await runningJob(backend, { queue: 'asked' }, { leaseMs: shortMs })
    await backend.jobs.cancel(asked.id)
    await lapse(backend, asked)
    const removed = await backend.jobs.remove([lapsed.id, asked.id])
    assert.deepEqual(removed.toSorted(), [lapsed.id, asked.id].sort())
    assert.equal(await settleOne(backend, lapsed), false)
    assert.deepEqual(await backend.jobs.renew([leaseOf(lapsed)], longMs), [])
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(lapsed)]), ['lost'])
    assert.deepEqual(await backend.jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 0 })
  })

  test('removing a job frees its unique key', async () => {
    await using backend = await open()
    const id = await addOne(backend, { uniqueKey: 'order 7' })
    await backend.jobs.remove([id])
    const next = await addOne(backend, { uniqueKey: 'order 7' })
    assert.deepEqual(ids(await claim(backend)), [next])
  })

  test('when one caller claims a job while another removes it, one of them succeeds', async () => {
    const namespace = aNamespace()
    await using backend = await lend(namespace)
    const jobs = Array.from({ length: 40 }, () => aJob())
    await backend.jobs.add(jobs)
    const all = ids(jobs)
    const [claimed, removed, also] = await Promise.all([
      claim(backend, { limit: 20 }),
      backend.jobs.remove(all.slice(0, 30)),
      backend.jobs.remove(all.slice(10)),
    ])
    const rest = ids(await backend.jobs.list({ state: 'ready', limit: 100 }))
    assert.deepEqual([...ids(claimed), ...removed, ...also, ...rest].sort(), all.toSorted())
    for (const { id } of claimed) assert.equal((await find(backend, id)).state, 'running')
  })

  test('one call removes many jobs, and none of another namespace', async () => {
    await using backend = await open()
    const other = backend.within(aNamespace())
    const jobs = Array.from({ length: 1_000 }, () => aJob())
    await backend.jobs.add(jobs)
    await other.jobs.add(jobs.slice(0, 3))
    assert.deepEqual(await backend.jobs.remove([]), [])
    assert.deepEqual((await backend.jobs.remove(ids(jobs))).toSorted(), ids(jobs).sort())
    assert.equal((await other.jobs.list({ limit: 10 })).length, 3)
  })

  test('removing a job removes its log lines and progress', async () => {
    await using backend = await open()
    const gone = await addOne(backend)
    const { id: stays } = await runningJob(backend, { queue: 'other' })
    const logs = [{ level: 'info' as const, text: 'begun' }]
    await backend.logs.add([gone, stays].map((jobId) => ({ jobId, attempt: 1, progress: '50', logs })))
    await backend.jobs.remove([gone, stays])
    assert.deepEqual(
      (await backend.logs.progress([gone, stays])).map(({ jobId }) => jobId),
      [stays],
    )
    assert.deepEqual(await backend.logs.logs(gone, { limit: 10 }), [])
    assert.equal((await backend.logs.logs(stays, { limit: 10 })).length, 1)
  })
}
