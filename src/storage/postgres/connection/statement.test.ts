import assert from 'node:assert/strict'
import { test } from 'vitest'
import { repeated, sparse } from './statement.ts'

test('a column with one repeated value is sent once', () => {
  assert.deepEqual(repeated(['a', 'a', 'a']), ['a'])
  assert.deepEqual(repeated(['a', 'b', 'a']), ['a', 'b', 'a'])
  assert.deepEqual(repeated([0]), [0])
})

test('a column of only null is empty, and any other is complete', () => {
  assert.deepEqual(sparse([null, null]), [])
  // Shortened to one element, the missing ones would be read as null.
  assert.deepEqual(sparse(['a', 'a']), ['a', 'a'])
  assert.deepEqual(sparse([null, 0]), [null, 0])
})
