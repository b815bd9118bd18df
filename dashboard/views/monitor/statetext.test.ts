import assert from 'node:assert/strict'
import { test } from 'vitest'
import { readState, writeState } from './statetext.ts'

test('words are shown without quotes, and what looks like another value keeps them', () => {
  assert.deepEqual(['"free"', '"1"', '"null"', '""', '3', 'null', '{"free":3}', '"cut sho'].map(readState), [
    ...['free', '"1"', '"null"', '""', '3', 'null', '{"free":3}', '"cut sho'],
  ])
})

test('a large state is shortened', () => {
  assert.equal(writeState({ text: 'x'.repeat(10_000) }).length, 201)
  assert.equal(writeState(undefined), 'null')
})
