import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedRecord, NewJob } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import type { Candidate } from '../candidates.ts'
import {
  addOne,
  claim,
  claimOne,
  endedJob,
  find,
  lapse,
  lapsedJob,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  shortMs,
} from './making.ts'

/** A waiting job is cancelled at once. A running job gets a request, and its attempt decides. */
export function cancellingContract({ open }: Candidate): void {
  test('a waiting job is cancelled at once', async () => {
    await using backend = await open()
    const ready = await addOne(backend)
    const scheduled = await addOne(backend, { due: { delayMs: longMs } })
    for (const id of [ready, scheduled]) {
      assert.deepEqual(await backend.jobs.cancel(id), { state: 'cancelled', cancelRequested: false })
      const job = await find(backend, id)
      assert.equal(job.state, 'cancelled')
      assert.equal(job.cancelRequested, false)
      assert.equal(job.startedAt, null)
      assert.ok(job.finishedAt !== null && job.finishedAt >= job.createdAt)
    }
    assert.deepEqual(await claim(backend), [])
  })

  test('a job that waits for its next attempt is cancelled at once', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { state: 'scheduled', delayMs: longMs })
    assert.deepEqual(await backend.jobs.cancel(claimed.id), { state: 'cancelled', cancelRequested: false })
    const { state, attempt } = await find(backend, claimed.id)
    assert.deepEqual([state, attempt], ['cancelled', 1])
  })

  for (const state of ['completed', 'dead', 'cancelled'] as const) {
    test(`cancelling a ${state} job changes nothing`, async () => {
      await using backend = await open()
      const id = await endedJob(backend, state)
      const before = await find(backend, id)
      assert.deepEqual(await backend.jobs.cancel(id), { state, cancelRequested: false })
      assert.deepEqual(await find(backend, id), before)
    })
  }

  test('cancelling, retrying or finding an unknown job returns undefined', async () => {
    await using backend = await open()
    for (const id of ['unknown', '', `' OR '1'='1`, '🚂', 'x'.repeat(400)]) {
      assert.equal(await backend.jobs.cancel(id), undefined)
      assert.equal(await backend.jobs.retry(id), undefined)
      assert.equal(await backend.jobs.find(id), undefined)
    }
  })

  test('a running job gets a cancellation request that its worker can read', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, { queue: 'a' })
    const other = await runningJob(backend, { queue: 'b' })
    const leases = [leaseOf(claimed), leaseOf(other)]
    assert.deepEqual(await backend.jobs.cancelRequests(leases), [])
    const asked = { state: 'running', cancelRequested: true }
    assert.deepEqual(await backend.jobs.cancel(claimed.id), asked)
    assert.deepEqual(await backend.jobs.cancel(claimed.id), asked)

    const { state, cancelRequested, leaseEndsAt } = await find(backend, claimed.id)
    assert.deepEqual({ state, cancelRequested }, asked)
    assert.equal(leaseEndsAt, claimed.leaseEndsAt)
    assert.deepEqual(await backend.jobs.cancelRequests(leases), [claimed.id])
    assert.deepEqual(await backend.jobs.cancelRequests([]), [])
    const renewed = await backend.jobs.renew(leases, longMs)
    assert.deepEqual(
      new Map(renewed.map((renewal) => [renewal.jobId, renewal.cancelRequested])),
      new Map([
        [claimed.id, true],
        [other.id, false],
      ]),
    )
  })

  for (const state of ['scheduled', 'ready'] as const) {
    test(`an attempt with a cancellation request ends as cancelled instead of ${state}`, async () => {
      await using backend = await open()
      const claimed = await runningJob(backend, { uniqueKey: 'a' })
      await backend.jobs.cancel(claimed.id)
      const error = '{"message":"aborted"}'
      assert.equal(await settleOne(backend, claimed, { state, delayMs: 0, error }), true)
      const job = await find(backend, claimed.id)
      assert.equal(job.state, 'cancelled')
      assert.equal(job.error, error)
      assert.deepEqual([job.cancelRequested, job.cancelIgnored], [false, false])
      assert.ok(job.finishedAt !== null)
      assert.deepEqual(await backend.jobs.outcomes([leaseOf(claimed)]), ['settled'])
      assert.deepEqual(await claim(backend), [])
      await addOne(backend, { uniqueKey: 'a' })
    })
  }

  test('an attempt that completes despite a cancellation request is completed, and its job shows the request', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await backend.jobs.cancel(claimed.id)
    assert.equal(await settleOne(backend, claimed, { result: '1' }), true)
    const { state, result, cancelRequested, cancelIgnored } = await find(backend, claimed.id)
    assert.deepEqual([state, result, cancelRequested, cancelIgnored], ['completed', '1', false, true])
  })

  test('an attempt that ends dead or cancelled shows no ignored request', async () => {
    await using backend = await open()
    for (const state of ['dead', 'cancelled'] as const) {
      const claimed = await runningJob(backend, { queue: state })
      await backend.jobs.cancel(claimed.id)
      assert.equal(await settleOne(backend, claimed, { state }), true)
      const job = await find(backend, claimed.id)
      assert.deepEqual([job.state, job.cancelRequested, job.cancelIgnored], [state, false, false])
    }
  })

  test('a verdict without a live lease does not end a job with a cancellation request', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await backend.jobs.cancel(claimed.id)
    const token = claimed.token.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
    assert.equal(await settleOne(backend, { ...claimed, token }, { state: 'ready' }), false)
    assert.equal((await find(backend, claimed.id)).state, 'running')
  })

  test('a lapsed job with a cancellation request is reclaimed as cancelled', async () => {
    await using backend = await open()
    const claimed = await askedAndLapsed(backend, { maxAttempts: 1, uniqueKey: 'a' })
    assert.deepEqual(await backend.jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 1 })
    const job = await find(backend, claimed.id)
    assert.deepEqual([job.state, job.cancelRequested, job.cancelIgnored], ['cancelled', false, false])
    assert.ok(job.finishedAt !== null)
    await addOne(backend, { uniqueKey: 'a' })
  })

  test('a claim skips a lapsed job with a cancellation request', async () => {
    await using backend = await open()
    const claimed = await askedAndLapsed(backend)
    assert.deepEqual(await claim(backend), [])
    await backend.jobs.reclaim(10)
    assert.equal((await find(backend, claimed.id)).state, 'cancelled')
  })

  test('a job whose lease expired does not run, so it is cancelled at once', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend)
    assert.deepEqual(await backend.jobs.cancel(claimed.id), { state: 'cancelled', cancelRequested: false })
    assert.equal((await find(backend, claimed.id)).state, 'cancelled')
    assert.deepEqual(await claim(backend), [])
  })

  test('a job whose last lease expired is dead, and cancelling leaves it dead', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend, { maxAttempts: 1 })
    assert.deepEqual(await backend.jobs.cancel(claimed.id), { state: 'dead', cancelRequested: false })
    assert.equal((await find(backend, claimed.id)).state, 'dead')
  })

  test('a cancellation request ends with its attempt', async () => {
    await using backend = await open()
    const first = await runningJob(backend)
    await backend.jobs.cancel(first.id)
    await settleOne(backend, first, { state: 'ready' })
    assert.deepEqual(await backend.jobs.retry(first.id), { outcome: 'ready' })
    const second = await claimOne(backend)
    assert.equal(second.cancelRequested, false)
    assert.deepEqual(await backend.jobs.cancelRequests([leaseOf(second)]), [])
    await settleOne(backend, second, { state: 'ready' })
    const third = await claimOne(backend)
    await settleOne(backend, third)
    const { state, cancelIgnored } = await find(backend, first.id)
    assert.deepEqual([state, cancelIgnored], ['completed', false])
  })

  test('a retry clears the mark that a cancellation request was ignored', async () => {
    await using backend = await open()
    const first = await runningJob(backend)
    await backend.jobs.cancel(first.id)
    await settleOne(backend, first)
    await backend.jobs.retry(first.id)
    assert.equal((await find(backend, first.id)).cancelIgnored, false)
    await settleOne(backend, await claimOne(backend))
    assert.equal((await find(backend, first.id)).cancelIgnored, false)
  })

  test('a worker that lost its job does not see a cancellation request to the next worker', async () => {
    await using backend = await open()
    const first = await runningJob(backend, {}, { leaseMs: shortMs })
    await lapse(backend, first)
    const second = await claimOne(backend)
    await backend.jobs.cancel(second.id)
    assert.deepEqual(await backend.jobs.cancelRequests([leaseOf(first)]), [])
    assert.deepEqual(await backend.jobs.cancelRequests([leaseOf(second)]), [second.id])
  })
}

/** A running job with a cancellation request, whose lease then expired. */
async function askedAndLapsed(backend: Backend, job: Partial<NewJob> = {}): Promise<ClaimedRecord> {
  const claimed = await inGrowingSpans('a job was asked to end while it ran', async (leaseMs) => {
    const running = await runningJob(backend, job, { leaseMs })
    return (await backend.jobs.cancel(running.id))?.cancelRequested ? running : undefined
  })
  await lapse(backend, claimed)
  return claimed
}
