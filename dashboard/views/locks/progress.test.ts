import assert from 'node:assert/strict'
import { test } from 'vitest'
import { readProgress } from './progress.ts'

test('progress is drawn from a number, a percentage or a fraction, and otherwise shown as its text', () => {
  assert.equal(readProgress(null), null)
  assert.deepEqual(readProgress(40), { share: 0.4, note: null })
  assert.deepEqual(readProgress({ percent: 140 }), { share: 1, note: null })
  assert.deepEqual(readProgress({ done: 3, total: 8, step: 'copy' }), { share: 0.375, note: 'copy' })
  assert.deepEqual(readProgress({ done: 3, total: 0 }), { share: null, note: '{"done":3,"total":0}' })
  assert.deepEqual(readProgress('draining'), { share: null, note: 'draining' })
  assert.deepEqual(readProgress([1]), { share: null, note: '[1]' })
  assert.equal(readProgress('x'.repeat(1_000))!.note!.length, 201)
})
