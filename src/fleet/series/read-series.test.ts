import assert from 'node:assert/strict'
import { test } from 'vitest'
import { hourMs, minuteMs, SeriesCell, type SeriesRow } from '../rules/index.ts'
import { readSeries } from './read-series.ts'
import type { SeriesQuery } from './series-store.ts'

const now = 1_000 * hourMs

/** A store that answers these rows, and keeps what it was asked. */
function storeOf(rows: readonly SeriesRow[]) {
  const asked: SeriesQuery[] = []
  return {
    asked,
    now: async () => now,
    async read(query: SeriesQuery) {
      asked.push(query)
      return { now, rows }
    },
  }
}

function aRow(bucketAt: number, queue: string, kind: string, fill: (cell: SeriesCell) => void): SeriesRow {
  const cell = new SeriesCell()
  fill(cell)
  return { bucketAt, queue, kind, ...cell.toValues() }
}

test('two days are read once, from rows of hours', async () => {
  const store = storeOf([])
  const { stepMs, items } = await readSeries(store, { from: now - 48 * hourMs, to: now, by: 'kind' })
  assert.deepEqual(
    store.asked.map(({ from, to, stepMs }) => [from, to, stepMs]),
    [[now - 48 * hourMs, now, hourMs]],
  )
  assert.deepEqual([stepMs, items], [hourMs, []])
})

test('each point has the counts and times of its own rows, and the total those of all', async () => {
  const [first, second] = [now - 2 * minuteMs, now - minuteMs]
  const rows = [
    aRow(first, 'mail', 'welcome', (cell) => {
      Object.assign(cell, { added: 3, started: 2, completed: 2 })
      cell.run.observe(40, 2)
      cell.waited('lock', 9_000)
    }),
    aRow(second, 'mail', 'welcome', (cell) => {
      Object.assign(cell, { started: 1, dead: 1 })
      cell.waited('queue', 5)
    }),
    aRow(first, 'post', 'welcome', (cell) => {
      Object.assign(cell, { added: 1, failed: 4 })
      cell.run.observe(70)
    }),
    aRow(first, 'mail', '', (cell) => cell.seen(7, 1)),
    aRow(first, 'mail', '', (cell) => cell.seen(5, 2)),
    aRow(first, 'post', '', (cell) => cell.seen(1, 0)),
  ]
  const [all] = (await readSeries(storeOf(rows), { from: first, to: now, step: '1m' })).items
  assert.deepEqual(
    all!.points.map(({ added, started, completed, failed, dead, ready, running }) => [
      ...[added, started, completed, failed, dead],
      ...[ready, running],
    ]),
    [
      [4, 2, 2, 4, 0, 8, 2],
      [0, 1, 0, 0, 1, null, null],
    ],
  )
  const [one, two] = all!.points
  assert.deepEqual([one!.waitMsBy, one!.wait?.count, one!.run?.count], [{ lock: 9_000 }, 1, 3])
  assert.deepEqual([two!.waitMsBy, two!.wait?.sumMs, two!.run], [{ queue: 5 }, 5, null])
  const { total } = all!
  assert.deepEqual([total.added, total.started, total.failed, total.dead], [4, 3, 4, 1])
  assert.deepEqual([total.waitMsBy, total.wait?.count], [{ lock: 9_000, queue: 5 }, 2])
  assert.deepEqual([total.run?.count, total.run?.sumMs, total.ready], [3, 150, null])
  assert.ok(total.run!.p50Ms <= total.run!.p90Ms && total.run!.p90Ms <= total.run!.p99Ms)
  const byQueue = (await readSeries(storeOf(rows), { from: first, to: now, step: '1m', by: 'queue' })).items
  assert.deepEqual(
    byQueue.map(({ queue, points }) => [queue, points.map(({ added, ready }) => [added, ready])]),
    [
      [
        'mail',
        [
          [3, 7],
          [0, null],
        ],
      ],
      ['post', [[1, 1]]],
    ],
  )
})
