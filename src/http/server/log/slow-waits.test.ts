import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createContention } from '../../../contention/index.ts'
import { slowWaitsLine } from './slow-waits.ts'

test('many slow waits of a kind are one line of the log, with their number, the longest and its cause', () => {
  const contention = createContention()
  const lines: unknown[] = []
  contention.events.on('slow', (waits) => lines.push(slowWaitsLine(waits).message))
  const [claim, rebuild] = [
    contention.kind('claim', { lane: 'registry' }),
    contention.kind('rebuild', { lane: 'registry' }),
  ]
  contention.turn(rebuild, 0, 0, 1_200)
  for (let wait = 0; wait < 12; wait++) contention.turn(claim, 0, 600 + 50 * wait, 600 + 50 * wait)
  // As long as a healthy machine takes, and one that is busy with other things.
  for (const ms of [20, 100, 330, 500]) contention.turn(claim, 2_000, 2_000 + ms, 2_000 + ms)
  contention.turn(contention.kind('timer'), 0, 400, 400)
  contention.snapshot()
  assert.deepEqual(lines, [])
  contention.turn(claim, 60_000, 60_700, 60_700)
  contention.snapshot()
  assert.deepEqual(lines, [
    '12 waits of claim above 500 ms in the last 60 s, longest 1.1 s, mostly behind rebuild',
  ])
})
