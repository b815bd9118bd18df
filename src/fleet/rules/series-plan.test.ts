import assert from 'node:assert/strict'
import { test } from 'vitest'
import { planRead, planSeries, type SeriesExtent } from './series-plan.ts'
import { hourMs, minuteMs, tenMinutesMs } from './series-row.ts'

const dayMs = 24 * hourMs
const keep = { minutesMs: 2 * dayMs, hoursMs: 90 * dayMs }
const begin = 1_000 * dayMs
const nothing: SeriesExtent = {
  ...{ now: begin + hourMs, mark: { tensUntil: begin, hoursUntil: begin } },
  ...{ firstPart: undefined, firstMinute: undefined, firstTen: undefined },
  oldest: [undefined, undefined, undefined],
}
const plan = (extent: Partial<SeriesExtent>) => planSeries({ ...nothing, ...extent }, keep)

test('a namespace without rows has nothing to do', () => {
  assert.deepEqual(plan({}), { minuteToMerge: undefined, merges: [], old: [] })
})

test('a minute is merged when no process can write it any more', () => {
  const firstPart = begin
  assert.equal(plan({ firstPart, now: begin + 149_999 }).minuteToMerge, undefined)
  assert.equal(plan({ firstPart, now: begin + 150_000 }).minuteToMerge, begin)
})

test('ten minutes are merged up to the first minute that processes may still write', () => {
  const [one] = plan({ firstMinute: begin + 3 * minuteMs, firstPart: begin + 25 * minuteMs }).merges
  assert.deepEqual(one, {
    ...{ from: begin, to: begin + 2 * tenMinutesMs, fromMs: minuteMs, stepMs: tenMinutesMs },
    mark: { tensUntil: begin + 2 * tenMinutesMs, hoursUntil: 0 },
  })
  const early = { firstMinute: begin, firstPart: begin + 9 * minuteMs }
  assert.deepEqual(plan(early).merges, [])
})

test('an hour is merged when all its ten-minute steps exist', () => {
  const extent = { now: begin + 3 * hourMs, firstTen: begin, firstMinute: begin + hourMs }
  const hours = (tensUntil: number) =>
    plan({ ...extent, mark: { tensUntil, hoursUntil: begin } })
      .merges.filter(({ stepMs }) => stepMs === hourMs)
      .map(({ from, to }) => [from, to])
  assert.deepEqual(hours(begin + hourMs - tenMinutesMs), [])
  assert.deepEqual(hours(begin + hourMs), [[begin, begin + hourMs]])
})

test('one transaction merges at most an hour of minutes and a day of steps', () => {
  const extent = { now: begin + 9 * dayMs, firstMinute: begin, firstTen: begin - 9 * dayMs }
  const spans = plan(extent).merges.map(({ from, to }) => to - from)
  assert.deepEqual(spans, [hourMs, dayMs])
})

test('steps older than their retention are deleted', () => {
  const now = begin + hourMs
  const oldest = [now - keep.minutesMs - 1, now - 14 * dayMs, now - keep.hoursMs - 1]
  assert.deepEqual(plan({ oldest }).old, [
    { stepMs: minuteMs, before: now - keep.minutesMs },
    { stepMs: hourMs, before: now - keep.hoursMs },
  ])
})

test('a reader takes the longest existing steps, and each instant once', () => {
  const mark = { tensUntil: begin + 80 * minuteMs, hoursUntil: begin + hourMs }
  const spans = (stepMs: number, from = begin, to = begin + 2 * hourMs) =>
    Object.values(planRead({ from, to, stepMs }, mark)).map((span) => [
      (span.from - begin) / minuteMs,
      (span.to - begin) / minuteMs,
    ])
  assert.deepEqual(spans(hourMs), [
    [0, 60],
    [60, 80],
    [80, 120],
  ])
  assert.deepEqual(spans(tenMinutesMs), [
    [0, 0],
    [0, 80],
    [80, 120],
  ])
  assert.deepEqual(spans(minuteMs), [
    [0, 0],
    [0, 0],
    [0, 120],
  ])
  assert.deepEqual(spans(hourMs, begin + 2 * hourMs, begin + 3 * hourMs), [
    [120, 120],
    [120, 120],
    [120, 180],
  ])
})
