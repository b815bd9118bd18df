import assert from 'node:assert/strict'
import { test } from 'vitest'
import { slowestOf } from './slowest.ts'

test('the slowest tests come first, and tests that did not run are left out', () => {
  const tests = [3, 0, 9, 5].map((ms) => ({ name: `took ${ms}`, file: 'a.test.ts', ms }))
  assert.deepEqual(
    slowestOf(tests, 2).map(({ ms }) => ms),
    [9, 5],
  )
  assert.equal(slowestOf(tests).length, 3)
})
