import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createAudit } from '../../../audit/index.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createJobs } from '../../../jobs/index.ts'
import { openMemory } from '../../../storage/memory/index.ts'
import { Spaces } from '../namespace-services.ts'
import { createServerUpkeep } from './server-upkeep.ts'

test('jobs with expired leases are reclaimed in every namespace in use, and old keys are deleted', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const spaces = new Spaces(memory)
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
  await using upkeep = createServerUpkeep({ served: memory, spaces, onLoopEvent: () => {} })
  await Promise.all(upkeep.loops.map((loop) => stepped(loop.name, () => loop.lastProgressAt)))
  for (const [index, namespace] of ['a', 'b'].entries()) {
    const { jobs } = memory.within(namespace)
    assert.equal((await jobs.find(ids[index]!))?.state, 'dead')
    assert.deepEqual(await jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 0 })
  }
  assert.equal(await memory.pruneKeys(10), 0)
  assert.ok(upkeep.loops.every(({ healthy }) => healthy))
})

test('expired guards are deleted in every namespace in use, in both stores of guards', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  await using elsewhere = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const within = (namespace: string) => ({
    ...memory.within(namespace),
    guards: elsewhere.within(namespace).guards,
    ownGuards: memory.within(namespace).guards,
  })
  const spaces = new Spaces({ within })
  const ask = { space: 'once', key: 'k', leaseMs: 100, keepMs: 100, mode: 'at-least-once' } as const
  for (const namespace of ['a', 'b']) {
    const { guards, ownGuards } = spaces.enter(namespace).stores
    await guards.claim([{ ...ask, fingerprint: null }])
    await ownGuards!.claim([{ ...ask, fingerprint: null }])
  }
  now += 1_000
  const served = { pruneKeys: async () => 0, within }
  await using upkeep = createServerUpkeep({ served, spaces, onLoopEvent: () => {} })
  const loop = upkeep.loops.find(({ name }) => name === 'server.guards')!
  await stepped(loop.name, () => loop.lastProgressAt)
  for (const namespace of ['a', 'b'])
    for (const store of [memory, elsewhere]) assert.equal(await store.within(namespace).guards.prune(10), 0)
})

test('an error of the store is reported, and the loops continue', async () => {
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
    spaces: new Spaces(memory),
    onLoopEvent: (loop, what) => {
      trouble.push(`${loop} ${what}`)
      if (what === 'recovered') told.resolve()
    },
  })
  await told.promise
  assert.deepEqual(trouble, ['server.keys failed', 'server.keys recovered'])
  assert.ok(upkeep.loops.every(({ healthy }) => healthy))
})

test('jobs that ended before the retention are deleted in every namespace in use, and others kept', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const spaces = new Spaces(memory)
  const end = async (namespace: string) => {
    const jobs = createJobs({
      store: memory.within(namespace).jobs,
      notifier: memory.within(namespace).notifier,
    })
    const { id } = await jobs.add('mail', {})
    const [claimed] = await jobs.claim()
    await jobs.ack(claimed!)
    return id
  }
  // No request named `default` or `unused` since the server started.
  const used = spaces.enter('shop').namespace
  const old = { shop: await end(used), default: await end('default'), unused: await end('unused') }
  now += 60_000
  const young = await end('shop')
  await using upkeep = createServerUpkeep({
    served: memory,
    spaces,
    retentionMs: 30_000,
    onLoopEvent: () => {},
  })
  await Promise.all(upkeep.loops.map((loop) => stepped(loop.name, () => loop.lastProgressAt)))
  const find = (namespace: string, id: string) => memory.within(namespace).jobs.find(id)
  while ((await find('shop', old.shop)) !== undefined) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(await find('default', old.default), undefined)
  assert.equal((await find('shop', young))?.state, 'completed')
  assert.equal((await find('unused', old.unused))?.state, 'completed')
})

test('audit entries older than their retention are deleted in every namespace in use', async () => {
  let now = 1_000_000
  await using memory = await openMemory({ namespace: 'default', migrate: true, now: () => now })
  const spaces = new Spaces(memory)
  const record = (queue: string) =>
    createAudit({ store: memory.within('shop').audit }).record({
      actor: { id: 'ada', name: null },
      action: 'queue.pause',
      target: { queue },
    })
  spaces.enter('shop')
  await record('old')
  now += 60_000
  await record('young')
  await using upkeep = createServerUpkeep({
    served: memory,
    spaces,
    auditKeepMs: 30_000,
    onLoopEvent: () => {},
  })
  const loop = upkeep.loops.find(({ name }) => name === 'server.audit')!
  await stepped(loop.name, () => loop.lastProgressAt)
  const { audit } = memory.within('shop')
  while ((await audit.list({ limit: 10 })).length > 1) await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual((await audit.list({ limit: 10 }))[0]?.target, { queue: 'young' })
})

/** Until a loop has made a step. */
async function stepped(_name: string, lastProgressAt: () => number): Promise<void> {
  const before = lastProgressAt()
  while (lastProgressAt() === before) await new Promise((resolve) => setImmediate(resolve))
}
