import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Slowest } from './recorder.ts'

const hourMs = 3_600_000

test('the slowest turns are kept, in whatever order they came', () => {
  const slowest = new Slowest(3, 0)
  for (const ms of [5, 1, 9, 2, 7, 3, 8]) slowest.note(0, `${ms}`, ms, 0, 0)

  const kept = slowest.list(0).map(({ what }) => what)
  assert.deepEqual(kept, ['9', '8', '7'])
})

test('a turn that was slow hours ago is evicted for one that is slow now', () => {
  const slowest = new Slowest(2, 0)
  slowest.note(0, 'start', 1_000, 0, 1)
  slowest.note(0, 'start again', 900, 0, 2)

  slowest.tick(hourMs + 1)
  slowest.note(0, 'later', 5, 0, hourMs + 2)
  assert.deepEqual(
    slowest.list(hourMs + 3).map(({ what }) => what),
    ['start', 'start again'],
  )
  slowest.tick(2 * hourMs + 2)
  assert.deepEqual(
    slowest.list(2 * hourMs + 3).map(({ what }) => what),
    ['later'],
  )
})

test('a long text about a turn is cut', () => {
  const slowest = new Slowest(1, 0)
  slowest.note(0, 'x'.repeat(100_000), 1, 0, 0)

  assert.equal(slowest.list(0)[0]!.what!.length, 191)
})
