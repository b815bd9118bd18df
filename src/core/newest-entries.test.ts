import assert from 'node:assert/strict'
import { test } from 'vitest'
import { setNewest } from './newest-entries.ts'

test('the newest entries stay, and an entry that is added again is the newest', () => {
  const map = new Map<string, number>()
  for (const [at, name] of ['a', 'b', 'a', 'c', 'd'].entries()) setNewest(map, name, at, 3)
  assert.deepEqual(
    [...map],
    [
      ['a', 2],
      ['c', 3],
      ['d', 4],
    ],
  )
})
