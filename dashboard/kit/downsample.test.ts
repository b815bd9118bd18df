import assert from 'node:assert/strict'
import { test } from 'vitest'
import { downsample, nearest } from './downsample.ts'

test('series with few enough points stay as they are', () => {
  const lines = [[1, null, 3]]
  assert.deepEqual(downsample([1, 2, 3], lines, 3), [[1, 2, 3], lines])
})

test('each bucket keeps its minimum and maximum in order, and an empty bucket stays a gap', () => {
  const times = [0, 1, 2, 3, 4, 5]
  const [kept, lines] = downsample(
    times,
    [
      [1, 9, 2, 3, 3, 0],
      [null, null, null, 7, null, null],
    ],
    4,
  )
  assert.deepEqual(kept, [0, 2, 3, 5])
  assert.deepEqual(lines, [
    [1, 9, 3, 0],
    [null, null, 7, 7],
  ])
})

test('a one-point peak among 130,000 points is kept, and times rise', () => {
  const times = Array.from({ length: 129_601 }, (_, nth) => nth)
  const [kept, lines] = downsample(times, [times.map((at) => (at === 77_777 ? 500 : 1))], 1_200)
  assert.ok(kept.length <= 1_200 && lines[0]!.length === kept.length)
  assert.ok(lines[0]!.includes(500))
  assert.ok(kept.every((at, nth) => nth === 0 || at >= kept[nth - 1]!))
})

test('the nearest point in time is found', () => {
  assert.deepEqual(
    [-5, 4, 6, 14, 16, 99].map((at) => nearest([0, 10, 20], at)),
    [0, 0, 1, 1, 2, 2],
  )
  assert.equal(nearest([], 3), -1)
})
