import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobRecord } from '../../jobs/index.ts'
import { HandedBack } from './handed-back.ts'

const storeOf = (state: JobRecord['state']) => ({
  find: async () => ({ state }) as JobRecord,
})

test('those that are overdue are looked for, and those that others took are given up', async () => {
  const handedBack = new HandedBack()
  handedBack.add('late', 0)
  handedBack.add('soon', 9_000)
  const gone: string[] = []
  await handedBack.check(storeOf('running'), 10_000, (taskId) => gone.push(taskId))
  assert.deepEqual(gone, ['late'])
  assert.equal(handedBack.size, 1)
  await handedBack.check(storeOf('ready'), 20_000, (taskId) => gone.push(taskId))
  assert.deepEqual(gone, ['late'], 'one that can still be claimed is waited for')
  assert.equal(handedBack.size, 1)
})

test('however many go to others, only so many are waited for', async () => {
  const handedBack = new HandedBack()
  for (let nr = 0; nr < 25_000; nr += 1) handedBack.add(`t${nr}`, 0)
  const gone: string[] = []
  await handedBack.check(storeOf('ready'), 0, (taskId) => gone.push(taskId))
  assert.equal(handedBack.size, 20_000)
  assert.equal(gone.length, 5_000)
  assert.equal(gone[0], 't0', 'the eldest first')
})
