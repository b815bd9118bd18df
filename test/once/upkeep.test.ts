import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createUpkeep } from '../../src/core/upkeep.ts'
import { createOnce } from '../../src/once/index.ts'
import { until } from '../conformance/locks/stage.ts'
import { brokenStore } from './stage.ts'

test('expired rows are deleted in batches, from the first use on and not before', async () => {
  const left = [1_000, 1_000, 7]
  const bites: number[] = []
  const prune = async (limit: number) => {
    bites.push(limit)
    return left.shift() ?? 0
  }
  await using once = createOnce({ store: brokenStore({ prune }) })
  await once.list()
  assert.deepEqual(bites, [])
  await once.claim('a')
  await until('all of it is forgotten', async () => left.length === 0)
  assert.deepEqual(bites, [1_000, 1_000, 1_000])
})

test('upkeep that was closed does not start again', async () => {
  const upkeep = createUpkeep({ name: 'once.upkeep', idleMs: 1_000, prune: async () => [0] })
  await upkeep[Symbol.asyncDispose]()
  upkeep.wake()
  assert.equal(upkeep.loop, undefined)
})
