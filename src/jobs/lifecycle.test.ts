import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { backoffDefaults, type Judged, judge, maxFree } from './lifecycle.ts'

function aJob(job: Partial<Judged> = {}): Judged {
  return {
    id: 'job-1',
    token: '1.0123456789abcdef',
    attempt: 1,
    maxAttempts: 3,
    handBackCount: 0,
    snoozeCount: 0,
    backoff: { baseMs: 100, factor: 2, maxMs: 1_000, jitter: 0 },
    ...job,
  }
}

const failed = { kind: 'threw', error: '{"message":"no"}' } as const

test('a job whose handler returned is completed with its result', () => {
  assert.deepEqual(judge(aJob(), { kind: 'returned', result: '{"ok":true}' }, 12), {
    jobId: 'job-1',
    token: '1.0123456789abcdef',
    state: 'completed',
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    delayMs: 0,
    ranMs: 12,
    result: '{"ok":true}',
    error: null,
  })
})

test('a failure with attempts left is scheduled after its back-off, with its error', () => {
  for (const [attempt, delayMs] of [
    [1, 100],
    [2, 200],
    [3, 400],
    [9, 1_000],
  ] as const) {
    const verdict = judge(aJob({ attempt, maxAttempts: 10 }), failed)
    assert.equal(verdict.state, 'scheduled')
    assert.equal(verdict.delayMs, delayMs)
    assert.equal(verdict.error, failed.error)
    assert.equal(verdict.attempt, attempt)
  }
})

test('a failure may bring its own back-off, completed from the job’s', () => {
  const job = aJob({ attempt: 3, maxAttempts: 10 })
  assert.equal(judge(job, { ...failed, backoff: { baseMs: 10 } }).delayMs, 40)
  assert.equal(judge(job, { ...failed, backoff: { factor: 1 } }).delayMs, 100)
  assert.equal(judge(job, { ...failed, backoff: { baseMs: 5_000, maxMs: 60_000 } }).delayMs, 20_000)
  assert.equal(judge(job, { ...failed, backoff: { jitter: 0.5 } }, null, () => 0).delayMs, 200)
  assert.equal(judge(job, { ...failed, retryInMs: 7 }).delayMs, 7)
})

test('a job whose last attempt fails is dead, and so is one whose failure says so', () => {
  assert.equal(judge(aJob({ attempt: 2 }), failed).state, 'scheduled')
  for (const attempt of [3, 4])
    assert.deepEqual(
      [judge(aJob({ attempt }), failed).state, judge(aJob({ attempt }), failed).error],
      ['dead', failed.error],
    )
  assert.equal(judge(aJob(), { ...failed, dead: true, retryInMs: 5 }).state, 'dead')
})

test('a requested wait overrides the back-off, also a wait of 0', () => {
  for (const retryInMs of [0, 7, 86_400_000]) {
    const verdict = judge(aJob(), { ...failed, retryInMs })
    assert.deepEqual([verdict.state, verdict.delayMs], ['scheduled', retryInMs])
  }
})

test('a job is handed back free ten times, and then each hand-back counts until it is dead', () => {
  let job = aJob({ maxAttempts: 3 })
  const interrupted = { kind: 'interrupted', delayMs: 0 } as const
  let grants = 1
  for (; ; grants++) {
    const verdict = judge(job, interrupted)
    assert.equal(verdict.delayMs, 0)
    if (verdict.state === 'dead') {
      assert.match(verdict.error!, /handed_back/)
      break
    }
    assert.equal(verdict.state, 'ready')
    if (grants <= maxFree) assert.deepEqual([verdict.attempt, verdict.handBackCount], [0, grants])
    else assert.equal(verdict.handBackCount, maxFree)
    // The next claim counts an attempt.
    job = { ...job, attempt: verdict.attempt + 1, handBackCount: verdict.handBackCount }
  }
  assert.equal(grants, maxFree + 3)
})

test('a hand-back with a wait is scheduled', () => {
  const verdict = judge(aJob({ attempt: 2 }), { kind: 'interrupted', delayMs: 500 })
  assert.deepEqual([verdict.state, verdict.delayMs, verdict.attempt], ['scheduled', 500, 1])
})

test('a cancelled job ends cancelled, whatever attempts are left', () => {
  for (const error of [null, '{"message":"stopped"}']) {
    const verdict = judge(aJob({ attempt: 3 }), { kind: 'cancelled', error })
    assert.deepEqual([verdict.state, verdict.error], ['cancelled', error])
  }
})

test('Q10: a wait is within its jitter, never above maxMs, and finite up to the thousandth attempt', () => {
  fc.assert(
    fc.property(
      fc.record({
        baseMs: fc.integer({ min: 0, max: 1_000_000 }),
        factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
        maxMs: fc.integer({ min: 0, max: 86_400_000 }),
        jitter: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (backoff, attempt, random) => {
        const job = aJob({ attempt, maxAttempts: 1_001, backoff })
        const { delayMs } = judge(job, failed, null, () => random)
        const { baseMs, factor, maxMs, jitter } = backoff
        const power = factor ** (attempt - 1)
        const planned = baseMs === 0 ? 0 : Math.min(maxMs, baseMs * power)
        assert.ok(Number.isSafeInteger(delayMs), `${delayMs}`)
        // Waits are whole milliseconds, so half a millisecond of rounding is allowed.
        assert.ok(delayMs >= planned * (1 - jitter) - 0.5)
        assert.ok(delayMs <= Math.min(maxMs, planned * (1 + jitter) + 0.5))
      },
    ),
    { numRuns: 2_000 },
  )
  for (let attempt = 1; attempt <= 1_000; attempt++) {
    const job = aJob({ attempt, maxAttempts: 1_001, backoff: backoffDefaults })
    const { delayMs } = judge(job, failed)
    const planned = Math.min(3_600_000, 2_000 * 2 ** (attempt - 1))
    assert.ok(delayMs >= planned * 0.8 && delayMs <= Math.min(3_600_000, planned * 1.2))
  }
})
