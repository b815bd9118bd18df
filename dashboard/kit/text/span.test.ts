import assert from 'node:assert/strict'
import { test } from 'vitest'
import { spanOf, writeSpan } from './span.ts'

test('a span is written in its largest whole unit, and a bare number is milliseconds', () => {
  assert.deepEqual([86_400_000, 7_200_000, 90_000, 5_000, 1_500, 0].map(writeSpan), [
    '1d',
    '2h',
    '90s',
    '5s',
    '1500ms',
    '0ms',
  ])
  assert.deepEqual([' 5m ', '250', ' 250 ', 'soon'].map(spanOf), ['5m', 250, 250, 'soon'])
})
