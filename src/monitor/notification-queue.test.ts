import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeIdTime } from '../core/ids.ts'
import { createMint } from './notification-queue.ts'

test('ids follow the given clock and rise, also after an id of another process', () => {
  const [here, there] = [createMint(), createMint()]
  let last = ''
  for (let round = 0; round < 1_000; round++) {
    const id = (round % 2 === 0 ? here : there)(5_000, last)
    assert.ok(id > last)
    last = id
  }
  assert.ok(decodeIdTime(last) >= 5_000)
  assert.equal(decodeIdTime(createMint()(7_000, '')), 7_000)
})

test('a clock that was set back makes no id that sorts before the last', () => {
  const last = createMint()(9_000, '')
  const next = createMint()(1_000, last)
  assert.ok(next > last)
})
