import assert from 'node:assert/strict'
import { test } from 'vitest'
import { shareOf } from './balancing.ts'

test('no task moves to a server without a free slot', () => {
  assert.equal(shareOf(10, { free: 0, size: 100 }, 0), 0)
})

test('tasks that no local node could run all move', () => {
  assert.equal(shareOf(1_000, { free: 1, size: 4 }, 0), 1_000)
})

test('of a long wait queue, the part moves that other servers can run in the same time', () => {
  assert.equal(shareOf(1_000, { free: 2, size: 10 }, 30), 250)
})

test('of a short wait queue, at least as many tasks move as there are free slots', () => {
  assert.equal(shareOf(3, { free: 2, size: 2 }, 100), 2)
  assert.equal(shareOf(1, { free: 5, size: 8 }, 100), 1)
})
