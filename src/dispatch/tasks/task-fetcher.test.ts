import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobRecord } from '../../jobs/index.ts'
import { HandedBack } from './task-fetcher.ts'

const lookupsOf = (state: JobRecord['state']) => ({
  ask: (_: string, found: (record: JobRecord) => void) => found({ state } as JobRecord),
})

test('overdue tasks are looked up, and those that other servers took are given up', () => {
  const handedBack = new HandedBack()
  handedBack.add('late', 0)
  handedBack.add('soon', 9_000)
  const gone: string[] = []
  handedBack.check(lookupsOf('running'), 10_000, (taskId) => gone.push(taskId))
  assert.deepEqual(gone, ['late'])
  assert.equal(handedBack.size, 1)
  handedBack.check(lookupsOf('ready'), 20_000, (taskId) => gone.push(taskId))
  assert.deepEqual(gone, ['late'], 'a task that can still be claimed is waited for')
  assert.equal(handedBack.size, 1)
})

test('the number of handed-back tasks that are waited for is bounded, and the oldest are given up', () => {
  const handedBack = new HandedBack()
  for (let nr = 0; nr < 25_000; nr += 1) handedBack.add(`t${nr}`, 0)
  const gone: string[] = []
  handedBack.check(lookupsOf('ready'), 0, (taskId) => gone.push(taskId))
  assert.equal(handedBack.size, 20_000)
  assert.equal(gone.length, 5_000)
  assert.equal(gone[0], 't0', 'the oldest first')
})
