import assert from 'node:assert/strict'
import { test } from 'vitest'
import { columnsOf, lastActivity, mergeActivity, type Series, type SeriesPoint } from './series-columns.ts'

const begin = 1_800_000_000_000
const stepMs = 60_000
const numbers = {
  ...{ added: 60, started: 6, completed: 30, failed: 6, dead: 6, cancelled: 0 },
  ...{ wait: null, waitMsBy: {}, run: null, ready: 3, running: 2 },
}
const point = (nth: number): SeriesPoint => ({ at: begin + nth * stepMs, ...numbers })
const series = (now: number, points: readonly SeriesPoint[], length = stepMs): Series => ({
  ...{ now, from: begin, to: begin + 4 * length, stepMs: length, isFolded: false },
  items: [{ queue: null, kind: null, total: numbers, points: [...points] }],
})

test('steps without events count as zero, and unmeasured steps are gaps', () => {
  const columns = columnsOf(series(begin + 4 * stepMs, [point(0), point(2)]))
  assert.deepEqual(
    columns.times.map((at) => (at - begin) / stepMs),
    [0, 1, 2, 3],
  )
  assert.deepEqual(columns.rate('added'), [1, 0, 1, 0])
  assert.deepEqual(columns.rate('failed', 'dead'), [0.2, 0, 0.2, 0])
  assert.deepEqual(
    columns.column(({ ready }) => ready),
    [3, null, 3, null],
  )
})

test('a step that has just begun is not drawn; a long running one is drawn for its elapsed part', () => {
  assert.equal(columnsOf(series(begin + 3.9 * stepMs, [])).times.length, 3)
  const hourMs = 3_600_000
  const hourly = columnsOf(series(begin + 600_000, [{ at: begin, ...numbers }], hourMs))
  assert.deepEqual(hourly.rate('added'), [0.1])
})

test("a queue's last activity is the end of its last step with work, and never later than now", () => {
  const idle = { ...numbers, added: 0, started: 0, completed: 0, dead: 0 }
  const points = [point(0), { at: begin + 2 * stepMs, ...idle }]
  const { items, ...more } = series(begin + 4 * stepMs, points)
  const byQueue = { ...more, items: [{ ...items[0]!, queue: 'mail' }] }
  assert.deepEqual([...lastActivity(byQueue)], [['mail', begin + stepMs]])
  assert.deepEqual([...lastActivity({ ...byQueue, now: begin + 5 })], [['mail', begin + 5]])
})

test('minutes give a better last activity of a queue than hours', () => {
  const byHour = new Map([
    ['mail', 9_000],
    ['old', 3_000],
    ['late', 9_000],
  ])
  const merged = mergeActivity(byHour, new Map([['mail', 8_500]]), 5_000)
  assert.deepEqual(
    [...merged],
    [
      ['mail', 8_500],
      ['old', 3_000],
      ['late', 5_000],
    ],
  )
})
