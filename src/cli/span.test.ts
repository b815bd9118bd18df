import assert from 'node:assert/strict'
import { test } from 'vitest'
import { spanOf } from './span.ts'

test('a span on the command line is text, or milliseconds, and is refused by the name of its flag', () => {
  assert.equal(spanOf('--ttl', '1.5m'), 90_000)
  assert.equal(spanOf('--ttl', '5000'), 5_000)
  assert.equal(spanOf('--ttl', undefined), undefined)
  for (const given of ['soon', '-5m', '-1', '5 s', ''])
    assert.throws(() => spanOf('--ttl', given), { code: 'invalid_argument', message: /^--ttl must be/ })
})
