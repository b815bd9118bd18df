/** Jobs that are put off: as often as they like, and no attempt is burnt. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { openTestBox } from '../../testing/index.ts'
import { backoffDefaults, judge, maxFree } from '../lifecycle.ts'

const at = Date.UTC(2026, 0, 1)

test('a snoozed job returns after its time, with the same attempt, however often', async () => {
  await using box = await openTestBox({ at })
  const seen: [attempt: number, snoozeCount: number, time: number][] = []
  const worker = box.jobs.worker({
    handlers: {
      async wait(job) {
        seen.push([job.attempt, job.snoozeCount, box.clock.now() - at])
        if (job.snoozeCount < 30) await job.snooze('1m')
      },
    },
  })
  const { id } = await box.jobs.add('wait', null, { maxAttempts: 1 })
  assert.deepEqual(await box.drain(), { completed: 0, failed: 0, dead: 0, errors: [] })
  const waiting = await box.jobs.find(id)
  assert.deepEqual(
    [waiting?.state, waiting?.attempt, waiting?.runAt, waiting?.snoozeCount],
    ['scheduled', 0, at + 60_000, 1],
  )
  assert.deepEqual(await box.drain({ withScheduled: true }), { completed: 1, failed: 0, dead: 0, errors: [] })
  assert.deepEqual(
    seen,
    Array.from({ length: 31 }, (_, round) => [1, round, round * 60_000]),
  )
  assert.deepEqual([worker.counts.snoozed, worker.counts.handedBack, worker.counts.failed], [30, 0, 0])
  assert.equal((await box.jobs.find(id))?.state, 'completed')
})

test('snoozes and hand-backs are counted separately: ten hand-backs are free despite snoozes', () => {
  const job = { id: 'a', token: 't', attempt: 1, maxAttempts: 1, backoff: backoffDefaults }
  let counts = { handBackCount: 0, snoozeCount: 0 }
  const countsIn = ({ handBackCount, snoozeCount }: typeof counts) => ({ handBackCount, snoozeCount })
  for (let round = 0; round < 100; round++) {
    const verdict = judge({ ...job, ...counts }, { kind: 'snoozed', delayMs: 5 })
    assert.deepEqual([verdict.state, verdict.attempt, verdict.delayMs], ['scheduled', 0, 5])
    counts = countsIn(verdict)
  }
  for (let round = 0; round < maxFree; round++) {
    const verdict = judge({ ...job, ...counts }, { kind: 'interrupted', delayMs: 0 })
    assert.deepEqual([verdict.state, verdict.attempt, verdict.snoozeCount], ['ready', 0, 100])
    counts = countsIn(verdict)
  }
  assert.equal(judge({ ...job, ...counts }, { kind: 'interrupted', delayMs: 0 }).state, 'dead')
  const snoozed = judge({ ...job, ...counts }, { kind: 'snoozed', delayMs: 0 })
  assert.deepEqual([snoozed.state, snoozed.snoozeCount], ['scheduled', 101])
  // The column ends somewhere; the count stops there, and the job goes on.
  const most = { handBackCount: 0, snoozeCount: 2 ** 31 - 1 }
  const last = judge({ ...job, ...most }, { kind: 'snoozed', delayMs: 0 })
  assert.deepEqual([last.state, last.snoozeCount], ['scheduled', 2 ** 31 - 1])
})

test('a job claimed by a call is snoozed by nack, without options for failures', async () => {
  await using box = await openTestBox({ at })
  const { id } = await box.jobs.add('wait')
  const [job] = await box.jobs.claim()
  for (const failed of [{ error: 'no' }, { dead: true }, { retryInMs: 5 }, { handBack: true }]) {
    await assert.rejects(box.jobs.nack(job!, { snoozeMs: '5m', ...failed }), (error) =>
      isSignalboxError(error, 'invalid_argument'),
    )
  }
  await assert.rejects(box.jobs.nack(job!, { snoozeMs: -1 }), (error) =>
    isSignalboxError(error, 'invalid_argument'),
  )
  assert.deepEqual(await box.jobs.nack({ id, token: job!.token }, { snoozeMs: '5m' }), { state: 'scheduled' })
  assert.equal((await box.jobs.claim()).length, 0)
  box.clock.advance('5m')
  const [again] = await box.jobs.claim()
  assert.deepEqual([again?.id, again?.attempt, again?.snoozeCount], [id, 1, 1])
})
