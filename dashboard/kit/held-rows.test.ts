import assert from 'node:assert/strict'
import { test } from 'vitest'
import { holdRows, showRows } from './held-rows.ts'

interface Row {
  readonly id: string
  readonly value: number
}
const keyOf = ({ id }: Row) => id
const rowsOf = (ids: string, value: number): readonly Row[] => Array.from(ids, (id) => ({ id, value }))
const none: ReadonlySet<string> = new Set()

test('held rows keep their order, get new values, and stay after they leave the list; new rows wait', () => {
  const held = holdRows(rowsOf('cba', 1), keyOf, new Map(), none)
  const shown = showRows(held, rowsOf('edbc', 2), keyOf)
  assert.deepEqual(
    shown.rows.map(({ key, row, isGone }) => [key, row.value, isGone]),
    [
      ['c', 2, false],
      ['b', 2, false],
      ['a', 1, true],
    ],
  )
  assert.deepEqual([shown.newCount, shown.goneCount], [2, 1])
})

test('admitted rows come with the selected rows that left, behind them', () => {
  const before = holdRows(rowsOf('cba', 1), keyOf, new Map(), none)
  const held = holdRows(rowsOf('edc', 2), keyOf, before, new Set(['a', 'c']))
  assert.deepEqual([...held.keys()], ['e', 'd', 'c', 'a'])
  assert.equal(showRows(held, rowsOf('edc', 2), keyOf).newCount, 0)
})
