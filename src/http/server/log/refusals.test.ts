import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock } from '../../../core/fake-clock.ts'
import { createRefusals } from './log.ts'
import type { LogFields } from './log-line.ts'

function setUp() {
  const clock = createFakeClock()
  const lines: (LogFields & { event: string })[] = []
  const counts: Record<string, number> = {}
  const refusals = createRefusals({
    clock,
    log: { warn: (event, fields) => void lines.push({ event, ...fields }) },
    count: (reason) => {
      counts[reason] = (counts[reason] ?? 0) + 1
    },
  })
  return { clock, lines, counts, refusals }
}

test('each refusal is counted, and logged with its reason', () => {
  const { refusals, lines, counts } = setUp()
  refusals.refused('parse_error', { address: '10.0.0.1' })
  refusals.refused('cut_request')
  assert.deepEqual(counts, { parse_error: 1, cut_request: 1 })
  assert.deepEqual(lines, [
    { event: 'connection.refused', reason: 'parse_error', address: '10.0.0.1' },
    { event: 'connection.refused', reason: 'cut_request' },
  ])
})

test('a flood of one reason makes a few lines and a sum, and hides no other reason', () => {
  const { refusals, lines, counts, clock } = setUp()
  for (let count = 0; count < 10_000; count++) refusals.refused('parse_error')
  refusals.refused('headers_timeout')
  assert.equal(counts.parse_error, 10_000)
  assert.equal(lines.length, 6)
  clock.advance(10_000)
  assert.deepEqual(lines.at(-1), {
    event: 'connection.refused',
    reason: 'parse_error',
    suppressedCount: 9_995,
  })
  assert.equal(lines.length, 7)
  assert.equal(clock.timerCount, 0)
  refusals.refused('parse_error')
  assert.equal(lines.length, 8)
})

test('closing logs the omitted number, and leaves no timer', () => {
  const { refusals, lines, clock } = setUp()
  for (let count = 0; count < 7; count++) refusals.refused('connection_limit')
  refusals.close()
  assert.deepEqual(lines.at(-1)?.suppressedCount, 2)
  assert.equal(clock.timerCount, 0)
  refusals.refused('connection_limit')
  assert.equal(lines.length, 6)
})
