import assert from 'node:assert/strict'
import { test } from 'vitest'
import { boundsMs, Histogram } from './histogram.ts'
import { SeriesCell } from './series-cell.ts'

test('a cell that is written and read is unchanged, and two cells add up', () => {
  const cell = new SeriesCell()
  Object.assign(cell, { added: 7, started: 6, completed: 4, failed: 3, dead: 2, cancelled: 1 })
  for (const ms of [0, 0.4, 1, 12, 12, 999, 65_000, 9e9]) cell.run.observe(ms)
  cell.waited('queue', 40)
  cell.waited('lock', 7_000)
  cell.waited('lock', -5)
  cell.seen(3, null)
  const again = new SeriesCell()
  again.addValues(cell.toValues())
  assert.deepEqual(again.toValues(), cell.toValues())
  again.addValues(cell.toValues())
  assert.deepEqual([again.added, again.ready, again.run.count, again.wait.count], [14, 3, 16, 6])
  assert.equal(again.run.sumMs, 2 * Math.round(cell.run.sumMs))
  const empty = new SeriesCell()
  empty.addValues(new SeriesCell().toValues())
  assert.deepEqual([empty.run.count, empty.waits.size, empty.toValues().runTimes], [0, 0, ''])
})

test('a percentile is correct within a fifth', () => {
  for (const ms of [0.7, 1.2, 4, 26, 480, 3_300, 59_000, 7_000_000]) {
    const times = new Histogram()
    // All around it, so that the percentile is in the middle.
    for (let nth = 0; nth < 1_000; nth++) times.observe(ms * (0.5 + nth / 1_000))
    const middle = times.percentiles([0.5])[0]!
    assert.ok(Math.abs(middle - ms) <= ms / 5 || ms < 1, `${middle} for ${ms}`)
  }
})

test('observations below a bound are those that Prometheus counts there', () => {
  const times = new Histogram()
  const given = [0, 1, 1.1, 5, 5.1, 100, 101, 1e12]
  for (const ms of given) times.observe(ms)
  const bounds = boundsMs.filter((_, nth) => nth % 2 === 0)
  assert.deepEqual(
    times.within(bounds),
    bounds.map((bound) => given.filter((ms) => ms <= bound).length),
  )
})
