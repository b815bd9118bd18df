import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  aJob,
  claim,
  claimOne,
  find,
  ids,
  lapsedJob,
  longMs,
  runningJob,
  settleOne,
  verdictOf,
} from './making.ts'

/** A verdict is written whole if its lease is live, and leaves no trace if it is not. */
export function settlingContract({ open }: Candidate): void {
  for (const state of ['completed', 'dead', 'cancelled'] as const) {
    test(`a job that is settled as ${state} has ended, with its result, error and times`, async () => {
      await using backend = await open()
      const claimed = await runningJob(backend, { maxAttempts: 3 })
      const result = state === 'completed' ? '{"sent":true}' : null
      const error = state === 'completed' ? null : '{"message":"no such address"}'
      assert.equal(await settleOne(backend, claimed, { state, result, error }), true)

      const { finishedAt, ...ended } = await find(backend, claimed.id)
      const { token: _, finishedAt: __, ...before } = claimed
      assert.deepEqual(ended, { ...before, state, result, error, leaseEndsAt: null })
      assert.ok(finishedAt !== null && finishedAt >= claimed.startedAt!)
      assert.deepEqual(await claim(backend), [])
    })
  }

  test('a job that is settled as scheduled waits for its delay, and keeps its error', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const error = '{"message":"try later"}'
    assert.equal(await settleOne(backend, claimed, { state: 'scheduled', delayMs: 3_600_000, error }), true)
    const job = await find(backend, claimed.id)
    assert.equal(job.state, 'scheduled')
    assert.equal(job.attempt, 1)
    assert.equal(job.error, error)
    assert.equal(job.finishedAt, null)
    assert.ok(Math.abs(job.runAt - claimed.startedAt! - 3_600_000) < 10_000)
    assert.deepEqual(await claim(backend), [])
  })

  test('a job that is scheduled without a delay is claimed again at once', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const error = '{"message":"once more"}'
    await settleOne(backend, claimed, { state: 'scheduled', delayMs: 0, error })
    const again = await claimOne(backend)
    assert.equal(again.id, claimed.id)
    assert.equal(again.attempt, 2)
    assert.ok(again.runAt >= claimed.startedAt!)
  })

  test('a job that is handed back is ready at its old position and loses no attempt', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend, { due: { runAt: 5_000 } })
    assert.equal(
      await settleOne(backend, claimed, { state: 'ready', attempt: 0, handBackCount: 1, delayMs: longMs }),
      true,
    )
    const { state, attempt, handBackCount, snoozeCount, runAt } = await find(backend, claimed.id)
    assert.deepEqual(
      { state, attempt, handBackCount, snoozeCount, runAt },
      { state: 'ready', attempt: 0, handBackCount: 1, snoozeCount: 0, runAt: 5_000 },
    )
    const again = await claimOne(backend)
    assert.deepEqual([again.attempt, again.handBackCount, again.snoozeCount], [1, 1, 0])
  })

  test('the verdict sets the attempt count, whatever the store counted', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { attempt: 4, handBackCount: 9, snoozeCount: 20 })
    const { attempt, handBackCount, snoozeCount } = await find(backend, claimed.id)
    assert.deepEqual([attempt, handBackCount, snoozeCount], [4, 9, 20])
  })

  test('a settled job has the start time that its handler reported', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { ranMs: 1_234 })
    const { startedAt, finishedAt } = await find(backend, claimed.id)
    assert.equal(finishedAt! - startedAt!, 1_234)
  })

  test('a job without a handler start time has started when it was claimed', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    await settleOne(backend, claimed, { ranMs: null })
    assert.equal((await find(backend, claimed.id)).startedAt, claimed.startedAt)
  })

  test('many verdicts are answered in order, and verdicts of lost leases change nothing', async () => {
    await using backend = await open()
    const lapsed = await lapsedJob(backend, { queue: 'lapsed' })
    const done = await runningJob(backend, { queue: 'done' })
    await settleOne(backend, done, { result: '"first"' })
    const [a, b, c] = [
      await runningJob(backend, { queue: 'a' }),
      await runningJob(backend, { queue: 'b' }),
      await runningJob(backend, { queue: 'c' }),
    ]
    const verdicts = [
      verdictOf(c, { result: '"c"' }),
      verdictOf(lapsed, { result: '"late"' }),
      verdictOf(a, { state: 'dead', error: '{"message":"a"}' }),
      verdictOf(done, { result: '"second"' }),
      verdictOf({ ...b, token: a.token }),
      verdictOf(b, { state: 'scheduled', delayMs: 1_000_000, error: '{"message":"b"}' }),
      verdictOf({ ...a, id: 'no such job' }),
      verdictOf({ ...a, token: 'not a token' }),
    ]
    assert.deepEqual(await backend.jobs.settle(verdicts), [
      true,
      false,
      true,
      false,
      false,
      true,
      false,
      false,
    ])

    const shown = async (id: string) => {
      const { state, result, error } = await find(backend, id)
      return [state, result, error]
    }
    assert.deepEqual(await shown(a.id), ['dead', null, '{"message":"a"}'])
    assert.deepEqual(await shown(b.id), ['scheduled', null, '{"message":"b"}'])
    assert.deepEqual(await shown(c.id), ['completed', '"c"', null])
    assert.deepEqual(await shown(done.id), ['completed', '"first"', null])
    assert.deepEqual(await shown(lapsed.id), ['ready', null, null])
  })

  test('settling an empty list returns an empty list', async () => {
    await using backend = await open()
    assert.deepEqual(await backend.jobs.settle([]), [])
  })

  test('the same verdict is refused the second time', async () => {
    await using backend = await open()
    for (const state of ['completed', 'scheduled', 'ready', 'dead', 'cancelled'] as const) {
      const claimed = await runningJob(backend, { queue: state })
      assert.equal(await settleOne(backend, claimed, { state, delayMs: 1_000_000 }), true)
      const once = await find(backend, claimed.id)
      assert.equal(await settleOne(backend, claimed, { state, delayMs: 5 }), false)
      assert.deepEqual(await find(backend, claimed.id), once)
    }
  })

  test('a verdict that is twice in one call takes effect once', async () => {
    await using backend = await open()
    for (const state of ['completed', 'scheduled', 'ready', 'dead'] as const) {
      const claimed = await runningJob(backend, { queue: state })
      const verdict = verdictOf(claimed, { state, delayMs: 1_000_000 })
      assert.deepEqual(await backend.jobs.settle([verdict, verdict]), [true, false])
      assert.equal((await find(backend, claimed.id)).state, state)
    }
  })

  test('of many concurrent verdicts on one attempt, one takes effect', async () => {
    await using backend = await open()
    const claimed = await runningJob(backend)
    const states = ['completed', 'dead', 'scheduled', 'ready', 'completed', 'dead'] as const
    const took = await Promise.all(
      states.map((state) => settleOne(backend, claimed, { state, delayMs: 1_000_000 })),
    )
    assert.equal(took.filter(Boolean).length, 1)
    assert.equal((await find(backend, claimed.id)).state, states[took.indexOf(true)])
  })

  test('a completed job shows no error of an earlier attempt', async () => {
    await using backend = await open()
    const first = await runningJob(backend)
    await settleOne(backend, first, { state: 'ready', error: '{"message":"first"}' })
    await settleOne(backend, await claimOne(backend), { result: '1' })
    const { error, result } = await find(backend, first.id)
    assert.deepEqual([error, result], [null, '1'])
  })

  test('one call settles five hundred jobs', async () => {
    await using backend = await open()
    const claimed = []
    for (let i = 0; i < 5; i++) {
      await backend.jobs.add(Array.from({ length: 100 }, () => aJob()))
      claimed.push(...(await claim(backend, { limit: 100 })))
    }
    assert.equal(new Set(ids(claimed)).size, 500)
    const took = await backend.jobs.settle(claimed.map((job) => verdictOf(job, { result: `"${job.id}"` })))
    assert.ok(took.length === 500 && took.every(Boolean))
    const ended = await backend.jobs.list({ state: 'completed', limit: 1_000 })
    assert.equal(ended.length, 500)
    for (const { id, result } of ended) assert.equal(result, `"${id}"`)
  })
}
