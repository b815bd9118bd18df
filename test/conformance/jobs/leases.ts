import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { inGrowingSpans } from '../../support/spans.ts'
import type { Candidate } from '../candidates.ts'
import {
  claimOne,
  endedJob,
  find,
  lapse,
  lapsedJob,
  leaseNo,
  leaseOf,
  longMs,
  runningJob,
  settleOne,
  shortMs,
  verdictOf,
} from './making.ts'

/** A lease is a job and a token, valid until it ends; nothing else counts, and nothing brings it back. */
export function leasesContract({ open }: Candidate): void {
  test('renewing a lease extends it and returns the new end', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, {}, { leaseMs: 60_000 })
    const [renewal, ...more] = await backend.jobs.renew([leaseOf(claimed)], 120_000)
    assert.equal(more.length, 0)
    assert.deepEqual(renewal, {
      ...leaseOf(claimed),
      leaseEndsAt: renewal?.leaseEndsAt,
      cancelRequested: false,
    })
    assert.ok(renewal!.leaseEndsAt >= claimed.leaseEndsAt + 60_000)
    assert.ok(renewal!.leaseEndsAt <= claimed.leaseEndsAt + 65_000)
    assert.equal((await find(backend, claimed.id)).leaseEndsAt, renewal!.leaseEndsAt)
  })

  test('renewing never shortens a lease', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, {}, { leaseMs: longMs })
    const [renewal] = await backend.jobs.renew([leaseOf(claimed)], 1_000)
    assert.equal(renewal?.leaseEndsAt, claimed.leaseEndsAt)
    assert.equal((await find(backend, claimed.id)).leaseEndsAt, claimed.leaseEndsAt)
  })

  test('a lease that is renewed in time outlives its first end', async () => {
    await using backend = await open()
    await inGrowingSpans('a lease was renewed in time', async (leaseMs) => {
      const claimed = await runningJob(backend, { queue: `lease ${leaseMs}` }, { leaseMs })
      if ((await backend.jobs.renew([leaseOf(claimed)], longMs)).length === 0) return undefined
      await sleep(leaseMs + 20)
      assert.equal((await find(backend, claimed.id)).state, 'running')
      assert.equal(await settleOne(backend, claimed), true)
      return true
    })
  })

  test('a renewal of many leases returns the renewed ones and leaves out the others', async () => {
    await using backend = await open()
    const lapsed = await lapsedJob(backend)
    const done = await runningJob(backend, { queue: 'a' })
    await settleOne(backend, done)
    const good = await runningJob(backend, { queue: 'b' })
    const alsoGood = await runningJob(backend, { queue: 'c' })
    const leases = [lapsed, good, done, alsoGood].map(leaseOf)
    const renewed = await backend.jobs.renew([...leases, { jobId: 'no such job', token: good.token }], longMs)
    assert.deepEqual(renewed.map(({ jobId }) => jobId).sort(), [good.id, alsoGood.id])
    assert.deepEqual(await backend.jobs.renew([], longMs), [])
  })

  test('an expired lease cannot be renewed, even when no other worker has claimed the job', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend)
    assert.deepEqual(await backend.jobs.renew([leaseOf(claimed)], longMs), [])
    assert.equal((await find(backend, claimed.id)).state, 'ready')
    assert.equal((await claimOne(backend)).id, claimed.id)
  })

  test('a reclaimed lease cannot be renewed', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend)
    await backend.jobs.reclaim(10)
    assert.deepEqual(await backend.jobs.renew([leaseOf(claimed)], longMs), [])
  })

  for (const state of ['completed', 'dead', 'cancelled', 'scheduled', 'ready'] as const) {
    test(`an attempt that ended ${state} has no lease`, async () => {
      await using backend = await open()
      const claimed = await runningJob(backend)
      assert.equal(await settleOne(backend, claimed, { state, delayMs: 1_000_000 }), true)
      assert.deepEqual(await backend.jobs.renew([leaseOf(claimed)], longMs), [])
      assert.equal(await settleOne(backend, claimed), false)
      assert.equal((await find(backend, claimed.id)).leaseEndsAt, null)
    })
  }

  test('an expired lease can neither ack nor nack', async () => {
    await using backend = await open()
    const claimed = await lapsedJob(backend)
    const before = await find(backend, claimed.id)
    for (const state of ['completed', 'scheduled', 'ready', 'dead', 'cancelled'] as const) {
      assert.equal(await settleOne(backend, claimed, { state, result: '1', error: '{}' }), false)
    }
    assert.deepEqual(await find(backend, claimed.id), before)
  })

  test('a job whose lease expired shows as ready, or dead when no attempts are left', async () => {
    await using backend = await open()
    const more = await lapsedJob(backend, { maxAttempts: 2 })
    const last = await lapsedJob(backend, { queue: 'other', maxAttempts: 1 })
    assert.equal((await find(backend, more.id)).state, 'ready')
    assert.equal((await find(backend, last.id)).state, 'dead')
  })

  test('the next claimer has a greater token, and the earlier claimer can change nothing', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend)
    const second = await claimOne(backend, { workerId: 'w2' })
    assert.equal(second.id, first.id)
    assert.ok(leaseNo(second.token) > leaseNo(first.token))
    const before = await find(backend, first.id)
    assert.deepEqual(await backend.jobs.renew([leaseOf(first)], longMs), [])
    assert.equal(await settleOne(backend, first), false)
    assert.equal(await settleOne(backend, first, { state: 'ready' }), false)
    assert.deepEqual(await find(backend, first.id), before)
    assert.equal(await settleOne(backend, second), true)
  })

  test('one call distinguishes a lost and a live attempt of the same job, in either order', async () => {
    await using backend = await open()
    const lost = await lapsedJob(backend)
    const live = await claimOne(backend)
    await backend.jobs.cancel(live.id)
    for (const both of [
      [lost, live],
      [live, lost],
    ]) {
      const leases = both.map(leaseOf)
      const renewed = await backend.jobs.renew(leases, longMs)
      assert.deepEqual(
        renewed.map(({ token }) => token),
        [live.token],
      )
      assert.deepEqual(new Set(await backend.jobs.cancelRequests(leases)), new Set([live.id]))
      assert.deepEqual(
        await backend.jobs.outcomes(leases),
        both.map((job) => (job === live ? 'held' : 'lost')),
      )
    }
    const verdicts = [verdictOf(lost, { result: '"lost"' }), verdictOf(live, { result: '"live"' })]
    assert.deepEqual(await backend.jobs.settle(verdicts), [false, true])
    assert.equal((await find(backend, live.id)).result, '"live"')
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(live), leaseOf(lost)]), ['settled', 'lost'])
  })

  test('a worker of the same name cannot end a job that it did not claim', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend)
    const second = await claimOne(backend, { workerId: first.workerId! })
    assert.equal(await settleOne(backend, first), false)
    assert.equal(await settleOne(backend, second), true)
  })

  test('an invented token, or none, gives no rights', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const number = leaseNo(claimed.token)
    const nonce = claimed.token.split('.')[1]!
    const tokens = [
      `${number}.0000000000000000`,
      `${number + 1n}.${nonce}`,
      `${number - 1n}.${nonce}`,
      `0${number}.${nonce}x`,
      `${number}.${nonce.toUpperCase()}G`,
      `${number}`,
      nonce,
      '',
      '.',
      'null',
      `' OR 1=1 --`,
      `99999999999999999999999999.${nonce}`,
      `-1.${nonce}`,
      `${number}.${nonce} `,
      '🚂',
    ]
    const leases = tokens.map((token) => ({ jobId: claimed.id, token }))
    assert.deepEqual(await backend.jobs.renew(leases, longMs), [])
    for (const { token } of leases) {
      assert.equal(await settleOne(backend, { ...claimed, token }), false)
    }
    assert.deepEqual(
      await backend.jobs.outcomes(leases),
      leases.map(() => 'lost'),
    )
    assert.deepEqual(await backend.jobs.cancelRequests(leases), [])
    assert.equal(await settleOne(backend, claimed), true)
  })

  test('the token of one job has no effect on another', async () => {
    await using backend = await open()
    const one = await runningJob(backend, { queue: 'a' })
    const other = await runningJob(backend, { queue: 'b' })
    assert.equal(await settleOne(backend, { ...one, token: other.token }), false)
    assert.deepEqual(await backend.jobs.renew([{ jobId: one.id, token: other.token }], longMs), [])
  })

  test('tokens continue to rise after an ended job is retried', async () => {
    await using backend = await open()
    const first = await runningJob(backend)
    await settleOne(backend, first, { state: 'dead' })
    assert.deepEqual(await backend.jobs.retry(first.id), { outcome: 'ready' })
    const second = await claimOne(backend)
    assert.equal(second.attempt, 1)
    assert.ok(leaseNo(second.token) > leaseNo(first.token))
    assert.equal(await settleOne(backend, first), false)
    assert.equal(await settleOne(backend, second), true)
  })

  test('the store knows whether an attempt is held, settled or lost', async () => {
    await using backend = await open()
    const outcome = async (...leases: Parameters<typeof leaseOf>) =>
      (await backend.jobs.outcomes(leases.map(leaseOf)))[0]

    const acked = await runningJob(backend, { queue: 'a' })
    assert.equal(await outcome(acked), 'held')
    await settleOne(backend, acked)
    assert.equal(await outcome(acked), 'settled')

    const nacked = await runningJob(backend, { queue: 'b' })
    await settleOne(backend, nacked, { state: 'scheduled', delayMs: longMs })
    assert.equal(await outcome(nacked), 'settled')

    const handedBack = await runningJob(backend, { queue: 'c' })
    await settleOne(backend, handedBack, { state: 'ready', attempt: 0, handBackCount: 1 })
    assert.equal(await outcome(handedBack), 'settled')

    const lapsed = await runningJob(backend, { queue: 'd' }, { leaseMs: shortMs })
    await lapse(backend, lapsed)
    assert.equal(await outcome(lapsed), 'lost')
    await backend.jobs.reclaim(10)
    assert.equal(await outcome(lapsed), 'lost')

    const buried = await runningJob(backend, { queue: 'e', maxAttempts: 1 }, { leaseMs: shortMs })
    await lapse(backend, buried)
    await backend.jobs.reclaim(10)
    assert.equal((await find(backend, buried.id)).state, 'dead')
    assert.equal(await outcome(buried), 'lost')

    const unknown = { jobId: await endedJob(backend, 'completed', { queue: 'f' }), token: acked.token }
    assert.deepEqual(
      await backend.jobs.outcomes([
        leaseOf(nacked),
        unknown,
        leaseOf(acked),
        leaseOf(lapsed),
        leaseOf(acked),
      ]),
      ['settled', 'lost', 'settled', 'lost', 'settled'],
    )
    assert.deepEqual(await backend.jobs.outcomes([]), [])
  })

  test('a settled attempt stays settled when its job is claimed again', async () => {
    await using backend = await open()
    const first = await runningJob(backend)
    await settleOne(backend, first, { state: 'ready' })
    const second = await claimOne(backend)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(first), leaseOf(second)]), ['settled', 'held'])
    await settleOne(backend, second)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(second)]), ['settled'])
  })

  test('a lost attempt stays lost when a later attempt settles', async () => {
    await using backend = await open()
    const first = await lapsedJob(backend)
    const second = await claimOne(backend)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(first), leaseOf(second)]), ['lost', 'held'])
    await settleOne(backend, second)
    assert.deepEqual(await backend.jobs.outcomes([leaseOf(first), leaseOf(second)]), ['lost', 'settled'])
  })
}
