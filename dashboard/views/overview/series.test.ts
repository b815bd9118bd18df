import assert from 'node:assert/strict'
import { test } from 'vitest'
import { endedPerMinute, isSameSeries, seriesOf } from './series.ts'

const sample = {
  ...{ added: 10, completed: 5, retried: 1, dead: 1, ready: 3, running: 2 },
  ...{ waitP50Ms: 4, waitP99Ms: 9, runP50Ms: null, runP99Ms: null },
}
const begin = 1_800_000_000_000
const history = {
  stepMs: 5_000,
  since: begin,
  samples: [
    { ...sample, at: begin },
    { ...sample, at: begin + 10_000 },
  ],
}

test('steps in which nothing happened count as none, and what nobody measured is a gap', () => {
  const series = seriesOf({ at: begin + 16_000, history })
  assert.deepEqual(series.times, [begin, begin + 5_000, begin + 10_000])
  assert.deepEqual(series.rate('added'), [2, 0, 2])
  assert.deepEqual(series.failures, [0.4, 0, 0.4])
  assert.deepEqual(series.column('waitP50Ms'), [4, null, 4])
})

test('the step under way is not drawn', () => {
  assert.equal(seriesOf({ at: begin + 14_999, history }).times.length, 2)
  assert.equal(endedPerMinute({ at: begin + 14_999, history }), 14)
})

test('an answer in the midst of a step shows the same, and one after its end does not', () => {
  const { samples } = history
  const early = seriesOf({ at: begin + 10_100, history })
  // What is known is kept; the step under way is told anew each time.
  const again = { ...history, samples: [samples[0]!, { ...samples[1]!, completed: 6 }] }
  assert.equal(isSameSeries(early, seriesOf({ at: begin + 14_999, history: again })), true)
  assert.equal(isSameSeries(early, seriesOf({ at: begin + 15_000, history: again })), false)
  const other = { ...history, samples: [{ ...samples[0]!, completed: 6 }, samples[1]!] }
  assert.equal(isSameSeries(early, seriesOf({ at: begin + 10_100, history: other })), false)
})
