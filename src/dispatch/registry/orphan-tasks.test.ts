import assert from 'node:assert/strict'
import { test } from 'vitest'
import { ForeignTasks } from './orphan-tasks.ts'

test('of ended tasks, the latest are remembered: as many as the node has slots, plus sixteen', () => {
  const foreignTasks = new ForeignTasks()
  const ids = Array.from({ length: 500 }, (_, nr) => `t${nr}`)
  for (const [nr, id] of ids.entries()) {
    foreignTasks.end(id, 4)
    // Said again, it is still one.
    foreignTasks.end(id, 4)
    const remembered = ids.slice(0, nr + 1).filter((each) => foreignTasks.ended.has(each))
    assert.deepEqual(remembered, ids.slice(Math.max(0, nr - 19), nr + 1))
  }
})

test('the registry forgets tasks that a node no longer lists', () => {
  const foreignTasks = new ForeignTasks()
  for (const id of ['a', 'b', 'c']) foreignTasks.end(id, 1)
  foreignTasks.keep(new Set(['b']))
  assert.deepEqual(
    ['a', 'b', 'c'].map((id) => foreignTasks.ended.has(id)),
    [false, true, false],
  )
  foreignTasks.clear()
  assert.equal(foreignTasks.ended.has('b'), false)
})
