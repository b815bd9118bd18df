import assert from 'node:assert/strict'
import { test } from 'vitest'
import { eachKindFirst } from './each-kind-first.ts'

test('the first problem of each kind comes before the second of any kind', () => {
  const problems = ['behind 1', 'behind 2', 'behind 3', 'dead 1', 'dead 2', 'paused 1'].map((text) => ({
    kind: text.split(' ')[0]!,
    text,
  }))
  assert.deepEqual(
    eachKindFirst(problems).map(({ text }) => text),
    ['behind 1', 'dead 1', 'paused 1', 'behind 2', 'dead 2', 'behind 3'],
  )
})
