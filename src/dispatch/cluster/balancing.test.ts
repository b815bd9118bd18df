import assert from 'node:assert/strict'
import { test } from 'vitest'
import { shareOf } from './balancing.ts'

test('no task goes where no slot is free', () => {
  assert.equal(shareOf(10, { free: 0, size: 100 }, 0), 0)
})

test('what waits where no node could do it goes altogether', () => {
  assert.equal(shareOf(1_000, { free: 1, size: 4 }, 0), 1_000)
})

test('of a long wait queue goes the part that the others can do in the same time', () => {
  assert.equal(shareOf(1_000, { free: 2, size: 10 }, 30), 250)
})

test('of a short wait queue goes at least what there is capacity for', () => {
  assert.equal(shareOf(3, { free: 2, size: 2 }, 100), 2)
  assert.equal(shareOf(1, { free: 5, size: 8 }, 100), 1)
})
