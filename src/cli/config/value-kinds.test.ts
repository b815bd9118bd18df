import assert from 'node:assert/strict'
import { test } from 'vitest'
import { spanOf, spanText } from './value-kinds.ts'

test('a span on the command line is text or milliseconds, and an invalid one is refused by its flag', () => {
  assert.equal(spanOf('--ttl', '1.5m'), 90_000)
  assert.equal(spanOf('--ttl', '5000'), 5_000)
  assert.equal(spanOf('--ttl', undefined), undefined)
  for (const given of ['soon', '-5m', '-1', '5 s', ''])
    assert.throws(() => spanOf('--ttl', given), { code: 'invalid_argument', message: /^--ttl must be/ })
})

test('a span is shown exactly, in the largest unit that needs no fraction', () => {
  const spans = [600_000, 90_000, 5_400_000, 7_200_000, 86_400_000, 1_500, 0]
  assert.deepEqual(spans.map(spanText), ['10 min', '90 s', '90 min', '2 h', '1 d', '1500 ms', '0 ms'])
})
