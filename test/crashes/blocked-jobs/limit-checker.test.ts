import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Attempt } from './attempts.ts'
import { checkLimits } from './limit-checker.ts'

const limits = {
  concurrency: 3,
  rate: { count: 4, perMs: 100 },
  perKey: { concurrency: 2, rate: null },
}

function ran(job: string, limitKey: string | null, claimedAt: number, endsAt: number): Attempt {
  return { job, limitKey, fence: null, claimedAt, endsAt, completed: true }
}

test('the checker accepts jobs within their limits, also where one starts as another ends', () => {
  const attempts = [ran('1', 'a', 0, 50), ran('2', 'a', 0, 60), ran('3', 'a', 50, 70), ran('4', null, 50, 90)]
  const { complaints, most } = checkLimits([...attempts, ran('5', 'b', 100, 110)], [], limits)
  assert.deepEqual(complaints, [])
  assert.deepEqual(most, { ofKey: 2, ofQueue: 3, inSpan: 4 })
})

test('the checker finds every job above the limits of a key, a queue and a rate', () => {
  const third = checkLimits([ran('1', 'a', 0, 50), ran('2', 'a', 0, 60), ran('3', 'a', 49, 70)], [], limits)
  assert.deepEqual(third.complaints, ['3 of a ran at 49'])
  const fourth = checkLimits(
    ['a', 'b', 'c', 'd'].map((key) => ran(key, key, key === 'd' ? 9 : 0, 10)),
    [],
    limits,
  )
  assert.deepEqual(fourth.complaints, ['4 ran at 9'])
  const fifth = checkLimits(
    [0, 20, 40, 60, 99].map((at) => ran(String(at), 'a', at, at + 1)),
    [],
    limits,
  )
  assert.deepEqual(fifth.complaints, ['5 of all started in the 100 ms from 0'])
})

test("the checker counts claims that never began by the database's record", () => {
  const seen = (job: string, claimedAt: number) => ({ job, limitKey: 'a', claimedAt })
  const { complaints, claims } = checkLimits(
    [ran('1', 'a', 0, 10)],
    [{ at: 5, running: [seen('1', 0), seen('2', 1), seen('3', 2)] }],
    limits,
  )
  assert.deepEqual(complaints, ['3 of a ran at 5'])
  assert.equal(claims, 3)
})
