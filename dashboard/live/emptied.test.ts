import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Emptied, emptiedMs, keepEmptied } from './emptied.ts'

interface Queue {
  readonly queue: string
  readonly ready: number
}

const keep = (before: readonly (Queue & Emptied)[], now: readonly Queue[], at: number) =>
  keepEmptied(
    before,
    now,
    at,
    ({ queue }) => queue,
    (queue) => ({ ...queue, ready: 0 }),
  )

test('an emptied queue stays listed for five minutes, and returns to normal with a new job', () => {
  const first = keep([], [{ queue: 'mail', ready: 3 }], 1_000)
  const second = keep(first, [], 2_000)
  assert.deepEqual(second, [{ queue: 'mail', ready: 0, emptiedAt: 2_000 }])
  assert.deepEqual(keep(second, [], 2_000 + emptiedMs), second)
  assert.deepEqual(keep(second, [], 2_001 + emptiedMs), [])
  assert.deepEqual(keep(second, [{ queue: 'mail', ready: 1 }], 3_000), [{ queue: 'mail', ready: 1 }])
})

test('names that come and go do not fill the page', () => {
  let kept: readonly (Queue & Emptied)[] = []
  for (let nth = 0; nth < 200; nth++) kept = keep(kept, [{ queue: `q${nth}`, ready: 1 }], nth)
  assert.equal(kept.length, 51)
  assert.deepEqual(
    kept.slice(0, 2).map(({ queue }) => queue),
    ['q199', 'q198'],
  )
})
