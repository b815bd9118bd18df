import assert from 'node:assert/strict'
import { test } from 'vitest'
import { stateText } from './state-text.ts'

test('a state is shown on one line: words without quotes, unless they look like another value', () => {
  assert.deepEqual(['free', '1', 'null', '', 3, null, undefined, { free: 3 }, ['a']].map(stateText), [
    'free',
    '"1"',
    '"null"',
    '""',
    '3',
    'null',
    'null',
    '{"free":3}',
    '["a"]',
  ])
})

test('a long state is shortened', () => {
  assert.equal(stateText({ text: 'x'.repeat(10_000) }).length, 201)
  assert.equal(stateText('word '.repeat(1_000)).length, 201)
})
