import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Strangers } from './foreign-tasks.ts'

test('of the tasks that are over, as many as the node has slots and sixteen more are remembered, the latest', () => {
  const strangers = new Strangers()
  const ids = Array.from({ length: 500 }, (_, nr) => `t${nr}`)
  for (const [nr, id] of ids.entries()) {
    strangers.end(id, 4)
    // Said again, it is still one.
    strangers.end(id, 4)
    const remembered = ids.slice(0, nr + 1).filter((each) => strangers.over.has(each))
    assert.deepEqual(remembered, ids.slice(Math.max(0, nr - 19), nr + 1))
  }
})

test('what a node no longer lists is forgotten', () => {
  const strangers = new Strangers()
  for (const id of ['a', 'b', 'c']) strangers.end(id, 1)
  strangers.keep(new Set(['b']))
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => strangers.over.has(id)),
    [false, true, false],
  )
  strangers.clear()
  assert.equal(strangers.over.has('b'), false)
})
