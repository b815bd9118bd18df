import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  aJob,
  claim,
  claimOne,
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

/** An operator can retry any job that does not run: the same job, from its first attempt. */
export function retryingContract({ open }: Candidate): void {
  for (const state of ['dead', 'cancelled', 'completed'] as const) {
    test(`a retried ${state} job is ready, with the same id and at its first attempt`, async () => {
      await using backend = await open()
      const first = await runningJob(backend, {
        priority: 3,
        maxAttempts: 2,
        uniqueKey: 'a',
        backoff: '{"baseMs":5}',
        timeoutMs: 77,
      })
      await settleOne(backend, first, { state, result: '1', error: '{"message":"x"}' })
      assert.deepEqual(await backend.jobs.retry(first.id), { outcome: 'ready' })

      const job = await find(backend, first.id)
      assert.equal(job.state, 'ready')
      assert.equal(job.attempt, 0)
      assert.equal(job.finishedAt, null)
      assert.equal(job.leaseEndsAt, null)
      assert.ok(job.runAt >= first.startedAt!)
      const { queue, kind, payload, priority, maxAttempts, uniqueKey, backoff, timeoutMs, createdAt } = first
      assert.partialDeepStrictEqual(job, {
        ...{ queue, kind, payload, priority, maxAttempts, uniqueKey, backoff, timeoutMs, createdAt },
      })
      assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })), [first.id])
      const again = await claimOne(backend)
      assert.equal(again.id, first.id)
      assert.equal(again.attempt, 1)
      assert.equal(await settleOne(backend, again), true)
      assert.equal((await find(backend, first.id)).error, null)
    })
  }

  test('retrying a waiting job makes it due now', async () => {
    await using backend = await open()
    const id = await addOne(backend, { due: { delayMs: longMs } })
    assert.deepEqual(await backend.jobs.retry(id), { outcome: 'ready' })
    const claimed = await claimOne(backend)
    assert.equal(claimed.id, id)
    await settleOne(backend, claimed, { state: 'scheduled', delayMs: longMs, error: '{"message":"x"}' })
    assert.deepEqual(await backend.jobs.retry(id), { outcome: 'ready' })
    const { state, attempt } = await find(backend, id)
    assert.deepEqual([state, attempt], ['ready', 0])
    assert.equal((await claimOne(backend)).attempt, 1)
  })

  test('retrying a running job changes nothing', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const before = await find(backend, claimed.id)
    assert.deepEqual(await backend.jobs.retry(claimed.id), { outcome: 'running' })
    assert.deepEqual(await find(backend, claimed.id), before)
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('a job whose lease expired does not run, so it can be retried', async () => {
    await using backend = await open()
    const more = await lapsedJob(backend, { maxAttempts: 3 })
    const last = await lapsedJob(backend, { queue: 'other', maxAttempts: 1 })
    for (const { id, queue, token } of [more, last]) {
      assert.deepEqual(await backend.jobs.retry(id), { outcome: 'ready' })
      const { state, attempt } = await find(backend, id)
      assert.deepEqual([state, attempt], ['ready', 0])
      const again = await claimOne(backend, { queues: [queue] })
      assert.deepEqual([again.id, again.attempt], [id, 1])
      assert.notEqual(again.token, token)
    }
  })

  test('a retried job does not have the cancellation request of its lost attempt', async () => {
    await using backend = await open()
    const first = await runningJob(backend, {}, { leaseMs: shortMs })
    await backend.jobs.cancel(first.id)
    await lapse(backend, first)
    assert.deepEqual(await backend.jobs.retry(first.id), { outcome: 'ready' })
    const again = await claimOne(backend)
    assert.equal(again.id, first.id)
    assert.deepEqual(await backend.jobs.cancelRequests([leaseOf(again)]), [])
    const [renewal] = await backend.jobs.renew([leaseOf(again)], longMs)
    assert.equal(renewal?.cancelRequested, false)
    assert.equal(await settleOne(backend, again, { state: 'ready' }), true)
    const { state, cancelRequested, cancelIgnored } = await find(backend, first.id)
    assert.deepEqual([state, cancelRequested, cancelIgnored], ['ready', false, false])
  })

  test('a job is not retried while another live job has its unique key', async () => {
    await using backend = await open()
    const first = await endedJob(backend, 'dead', { uniqueKey: 'a' })
    const second = await addOne(backend, { uniqueKey: 'a', due: { delayMs: longMs } })
    const before = await find(backend, first)
    assert.deepEqual(await backend.jobs.retry(first), { outcome: 'taken' })
    assert.deepEqual(await find(backend, first), before)
    await backend.jobs.cancel(second)
    assert.deepEqual(await backend.jobs.retry(first), { outcome: 'ready' })
    assert.deepEqual(await backend.jobs.retry(second), { outcome: 'taken' })
  })

  test('a retried job has its unique key again', async () => {
    await using backend = await open()
    const id = await endedJob(backend, 'completed', { uniqueKey: 'a' })
    await backend.jobs.retry(id)
    assert.deepEqual(await backend.jobs.add([aJob({ uniqueKey: 'a' })]), [{ id, duplicate: true }])
  })

  test('retrying the dead jobs retries all of them and no others', async () => {
    await using backend = await open()
    const dead = [await endedJob(backend, 'dead'), await endedJob(backend, 'dead', { queue: 'other' })]
    const completed = await endedJob(backend, 'completed')
    const cancelled = await endedJob(backend, 'cancelled')
    assert.equal(await backend.jobs.retryDead({ limit: 10 }), 2)
    assert.equal(await backend.jobs.retryDead({ limit: 10 }), 0)
    for (const id of dead) {
      const { state, attempt } = await find(backend, id)
      assert.deepEqual([state, attempt], ['ready', 0])
    }
    assert.equal((await find(backend, completed)).state, 'completed')
    assert.equal((await find(backend, cancelled)).state, 'cancelled')
    assert.deepEqual(ids(await claim(backend, { queues: ['mail', 'other'] })).sort(), dead.toSorted())
  })

  test('dead jobs are retried oldest first, as many as asked for', async () => {
    await using backend = await open()
    const dead: string[] = []
    for (let i = 0; i < 5; i++) dead.push(await endedJob(backend, 'dead'))
    assert.equal(await backend.jobs.retryDead({ limit: 2 }), 2)
    const left = await backend.jobs.list({ state: 'dead', limit: 10 })
    assert.deepEqual(ids(left).sort(), dead.slice(2))
    assert.equal(await backend.jobs.retryDead({ limit: 0 }), 0)
  })

  test('the retry of dead jobs can be limited to one queue or one kind', async () => {
    await using backend = await open()
    const a = await endedJob(backend, 'dead', { queue: 'a', kind: 'x' })
    const b = await endedJob(backend, 'dead', { queue: 'b', kind: 'x' })
    const c = await endedJob(backend, 'dead', { queue: 'b', kind: 'y' })
    const deadIds = async () => ids(await backend.jobs.list({ state: 'dead', limit: 10 })).sort()
    assert.equal(await backend.jobs.retryDead({ queue: 'a', kind: 'y', limit: 10 }), 0)
    assert.equal(await backend.jobs.retryDead({ kind: 'y', limit: 10 }), 1)
    assert.deepEqual(await deadIds(), [a, b].sort())
    assert.equal(await backend.jobs.retryDead({ queue: 'b', limit: 10 }), 1)
    assert.deepEqual(await deadIds(), [a])
    assert.equal((await find(backend, c)).state, 'ready')
  })

  test('a retry of dead jobs skips those whose unique key is taken and retries the others', async () => {
    await using backend = await open()
    const older = await endedJob(backend, 'dead', { uniqueKey: 'a' })
    const newer = await endedJob(backend, 'dead', { uniqueKey: 'a' })
    const blocked = await endedJob(backend, 'dead', { uniqueKey: 'b' })
    const plain = await endedJob(backend, 'dead')
    await addOne(backend, { uniqueKey: 'b', queue: 'mail', due: { delayMs: longMs } })
    assert.equal(await backend.jobs.retryDead({ limit: 10 }), 2)
    const states = async (...jobs: string[]) =>
      Promise.all(jobs.map(async (id) => (await find(backend, id)).state))
    assert.deepEqual(await states(older, newer, blocked, plain), ['ready', 'dead', 'dead', 'ready'])
  })

  test('of many concurrent retries of one job, the job is ready once', async () => {
    await using backend = await open()
    const id = await endedJob(backend, 'dead', { uniqueKey: 'a' })
    const answers = await Promise.all(Array.from({ length: 6 }, () => backend.jobs.retry(id)))
    assert.deepEqual(
      answers.map((answer) => answer?.outcome),
      answers.map(() => 'ready'),
    )
    assert.deepEqual(ids(await claim(backend)), [id])
    assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })), [id])
  })

  test('the unique key of a job whose last lease expired is free before any reclaim', async () => {
    await using backend = await open()
    const id = await endedJob(backend, 'dead', { uniqueKey: 'key', maxAttempts: 1 })
    const holder = await lapsedJob(backend, { uniqueKey: 'key', maxAttempts: 1 })
    assert.equal((await find(backend, holder.id)).state, 'dead')
    assert.deepEqual(await backend.jobs.retry(id), { outcome: 'ready' })
  })
}
