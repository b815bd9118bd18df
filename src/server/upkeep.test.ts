import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../backends/memory/index.ts'
import { SignalboxError } from '../core/errors.ts'
import { createJobs } from '../jobs/index.ts'
import { createSpaces } from './spaces.ts'
import { createServerUpkeep } from './upkeep.ts'

test('jobs whose lease ran out come back in every namespace in use, and old keys go', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const spaces = createSpaces(memory)
  const ids: string[] = []
  for (const namespace of ['a', 'b']) {
    const { jobs, stores } = spaces.enter(namespace)
    const { id } = await jobs.add('mail', {}, { maxAttempts: 1 })
    await jobs.claim({ leaseMs: 100 })
    const key = { caller: 'me', key: 'k', fingerprint: 'f', keepMs: 100 }
    await stores.keyed(key).jobs.pause('q')
    ids.push(id)
  }
  now += 1_000
  await using upkeep = createServerUpkeep({ served: memory, spaces, onTrouble: () => {} })
  await Promise.all(upkeep.loops.map((loop) => stepped(loop.name, () => loop.lastProgressAt)))
  for (const [index, namespace] of ['a', 'b'].entries()) {
    const { jobs } = memory.within(namespace)
    assert.equal((await jobs.find(ids[index]!))?.state, 'dead')
    assert.deepEqual(await jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 0 })
  }
  assert.equal(await memory.pruneKeys(10), 0)
  assert.ok(upkeep.loops.every(({ healthy }) => healthy))
})

test('trouble with the store is told, and the loops go on', async () => {
  const trouble: string[] = []
  let failures = 0
  const served = {
    async pruneKeys() {
      if (failures++ === 0) throw new SignalboxError('store_unavailable', 'gone')
      return 0
    },
    within: (namespace: string) => memory.within(namespace),
  }
  await using memory = await openMemory({ namespace: 'default', migrate: true })
  const told = Promise.withResolvers<void>()
  await using upkeep = createServerUpkeep({
    served,
    spaces: createSpaces(memory),
    onTrouble: (loop, what) => {
      trouble.push(`${loop} ${what}`)
      if (what === 'recovered') told.resolve()
    },
  })
  await told.promise
  assert.deepEqual(trouble, ['server.keys failed', 'server.keys recovered'])
  assert.ok(upkeep.loops.every(({ healthy }) => healthy))
})

test('jobs that ended longer ago than the retention are forgotten in every namespace in use, others kept', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const spaces = createSpaces(memory)
  const end = async (namespace: string) => {
    const jobs = createJobs({ store: memory.within(namespace).jobs, bell: memory.within(namespace).bell })
    const { id } = await jobs.add('mail', {})
    const [claimed] = await jobs.claim()
    await jobs.ack(claimed!)
    return id
  }
  // Nobody came to `default` since the server started, nor to `unused`.
  const used = spaces.enter('shop').namespace
  const old = { shop: await end(used), default: await end('default'), unused: await end('unused') }
  now += 60_000
  const young = await end('shop')
  await using upkeep = createServerUpkeep({
    served: memory,
    spaces,
    retentionMs: 30_000,
    onTrouble: () => {},
  })
  await Promise.all(upkeep.loops.map((loop) => stepped(loop.name, () => loop.lastProgressAt)))
  const find = (namespace: string, id: string) => memory.within(namespace).jobs.find(id)
  while ((await find('shop', old.shop)) !== undefined) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(await find('default', old.default), undefined)
  assert.equal((await find('shop', young))?.state, 'completed')
  assert.equal((await find('unused', old.unused))?.state, 'completed')
})

/** Until a loop has made a step. */
async function stepped(_name: string, lastProgressAt: () => number): Promise<void> {
  const before = lastProgressAt()
  while (lastProgressAt() === before) await new Promise((resolve) => setImmediate(resolve))
}
