import assert from 'node:assert/strict'
import { test } from 'vitest'
import { heatMapOf, heatOf, placeOf, type Snapshot } from './heat.ts'

const snapshot = {
  holders: [
    { holder: 'rebuild', ms: 120 },
    { holder: 'gc', ms: 5 },
    { holder: 'host', ms: 1 },
  ],
  matrix: [
    { waiter: 'dispatch', holder: 'rebuild', ms: 100, count: 10 },
    { waiter: 'heartbeat', holder: 'rebuild', ms: 20, count: 2 },
    { waiter: 'dispatch', holder: 'gc', ms: 5, count: 1 },
    { waiter: 'timer', holder: 'host', ms: 1, count: 1 },
  ],
} as unknown as Snapshot

test('rows and columns come largest first, and a cell is where they cross', () => {
  const { holders, rows, low, high } = heatMapOf(snapshot, 10)
  assert.deepEqual(holders, ['rebuild', 'gc', 'host'])
  assert.deepEqual(
    rows.map(({ waiter, ms, cells }) => [waiter, ms, ...cells.map((cell) => cell?.ms)]),
    [
      ['dispatch', 105, 100, 5, undefined],
      ['heartbeat', 20, 20, undefined, undefined],
      ['timer', 1, undefined, undefined, 1],
    ],
  )
  assert.deepEqual([low, high], [1, 100])
})

test('cells that are cut off still count in the sum of their row', () => {
  const { rows } = heatMapOf(snapshot, 1)
  assert.deepEqual(
    rows.map(({ waiter, ms, cells }) => [waiter, ms, cells.length]),
    [['dispatch', 105, 1]],
  )
})

test('shades and positions rise with the time and stay within the scale', () => {
  assert.deepEqual([heatOf(0, 100), heatOf(100, 100), heatOf(1, 0)], [0, 1, 0])
  assert.ok(heatOf(10, 100) > heatOf(1, 100))
  assert.deepEqual([placeOf(0, 100), placeOf(100, 100), placeOf(1_000, 100)], [0, 1, 1])
  assert.ok(Math.abs(placeOf(1, 100) - 0.5) < 1e-9)
})
