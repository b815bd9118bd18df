import assert from 'node:assert/strict'
import { test } from 'vitest'
import { ClusterState } from '../../../src/dispatch/cluster/cluster-state.ts'
import type { ClusterStore } from '../../../src/dispatch/cluster/cluster-store.ts'
import { OwnNodes } from '../../../src/dispatch/cluster/own-nodes.ts'
import { openStore, until } from '../service/stage.ts'

test('a node whose row the store lost before any read is written again', async () => {
  await using before = await openStore('memory')
  await using after = await openStore('memory')
  // Versions rise for ever, also those of a store that lost everything.
  const pools = Array.from({ length: 20 }, (_, nr) => ({ kind: 'pool', key: `p${nr}`, seen: 0 }) as const)
  await after.backend.cluster.write(pools.map((pool) => ({ ...pool, doc: '{}', forMs: null })))
  let [clusterStore, isReset] = [before.backend.cluster, false]
  const store: ClusterStore = {
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => clusterStore.write(writes),
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
    async read(since, limit) {
      const page = await clusterStore.read(isReset ? 0 : since, limit)
      const wasReset = isReset
      isReset = false
      return { ...page, isReset: wasReset }
    },
  }
  const troubles: unknown[] = []
  const shared = { monotonicMs: () => performance.now(), onError: (error: unknown) => troubles.push(error) }
  const cluster = new ClusterState({ store, notifier: before.backend.notifier, ...shared })
  const ownNodes = new OwnNodes({
    ...{
      cluster,
      serverId: 'east',
      leastEpoch: () => 1,
      lost: assert.fail,
      changed: () => undefined,
      ...shared,
    },
  })
  await before.backend.cluster.write([{ kind: 'pool', key: 'p0', seen: 0, doc: '{}', forMs: null }])
  await cluster.catchUp()
  const caller = { nodeId: 'n1', instanceId: 'one', services: [], labels: {}, epoch: 1, holder: {} }
  const entered = Promise.withResolvers<unknown>()
  ownNodes.enter({ ...caller, isThere: () => true }, entered.resolve)
  assert.ok(await entered.promise)
  ;[clusterStore, isReset] = [after.backend.cluster, true]

  await cluster.catchUp()
  await until('its row is there again', async () => {
    ownNodes.rewriteLost()
    const row = await clusterStore.find('node', 'n1')
    return row?.doc !== undefined
  })
  await cluster.catchUp()
  const { version } = cluster.rows('node').get('n1')!
  ownNodes.rewriteLost()
  await cluster.catchUp()
  assert.equal(cluster.rows('node').get('n1')!.version, version, 'what is there is not written again')
  assert.deepEqual(troubles, [])
})

test('a node whose row fell back to an older version is corrected, and not taken for lost', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, notifier } = store.backend
  const shared = {
    monotonicMs: () => performance.now(),
    onError: (error: unknown) => assert.fail(String(error)),
  }
  let isOld = false
  // Its last write is gone, and the counter has gone on since.
  const old = { kind: 'node', key: 'n1', version: 1, expiresAt: null } as const
  const doc = { instanceId: 'one', epoch: 1, past: [], owner: 'west', services: [], labels: {}, joinedAt: 0 }
  const fallenBack: ClusterStore = {
    prune: async () => 0,
    find: async (kind, key) => (isOld ? { ...old, doc: JSON.stringify(doc) } : clusterStore.find(kind, key)),
    async write(writes) {
      if (!isOld) return clusterStore.write(writes)
      if (writes[0]!.seen !== old.version) return [null]
      const { version } = (await clusterStore.find('node', 'n1'))!
      isOld = false
      return clusterStore.write(writes.map((write) => ({ ...write, seen: version })))
    },
    async read(since, limit) {
      if (!isOld) return clusterStore.read(since, limit)
      const page = await clusterStore.read(0, limit)
      const rows = page.rows.filter(({ key }) => key !== 'n1')
      return { ...page, rows: [{ ...old, doc: JSON.stringify(doc) }, ...rows], isReset: true }
    },
  }
  const cluster = new ClusterState({ store: fallenBack, notifier, ...shared })
  const lost: string[] = []
  const ownNodes = new OwnNodes({
    ...{ cluster, serverId: 'east', leastEpoch: () => 1, changed: () => undefined, ...shared },
    lost: (nodeId) => void lost.push(nodeId),
  })
  await clusterStore.write([{ kind: 'pool', key: 'before', seen: 0, doc: '{}', forMs: null }])
  await cluster.catchUp()
  const caller = { nodeId: 'n1', instanceId: 'one', services: [], labels: {}, epoch: 1, holder: {} }
  const entered = Promise.withResolvers<unknown>()
  ownNodes.enter({ ...caller, isThere: () => true }, entered.resolve)
  assert.ok(await entered.promise)
  await clusterStore.write([{ kind: 'pool', key: 'later', seen: 0, doc: '{}', forMs: null }])
  await cluster.catchUp()

  isOld = true
  await cluster.catchUp()
  ownNodes.rewriteLost()
  await until('it is written again', () => !isOld)
  await until('it is this server’s', async () => {
    const row = await clusterStore.find('node', 'n1')
    return (JSON.parse(row!.doc!) as { owner: string }).owner === 'east'
  })
  assert.deepEqual(lost, [])
  assert.ok(ownNodes.has('n1'))
})

test('a process that slept does not restore rows that were removed meanwhile', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, notifier } = store.backend
  let aheadMs = 0
  const later: ClusterStore = {
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => clusterStore.write(writes),
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
    async read(since, limit) {
      const page = await clusterStore.read(since, limit)
      return { ...page, now: page.now + aheadMs }
    },
  }
  // Its own clock froze.
  const cluster = new ClusterState({
    store: later,
    notifier,
    monotonicMs: () => 1,
    onError: (error: unknown) => assert.fail(String(error)),
  })
  const cordon = { kind: 'cordon', key: '["n1",null]', forMs: null } as const
  const [seen] = await clusterStore.write([{ ...cordon, seen: 0, doc: '{}' }])
  await cluster.catchUp()
  assert.equal(cluster.rows('cordon').size, 1)
  await clusterStore.write([
    { ...cordon, seen: seen!, doc: null },
    { kind: 'pool', key: 'p1', seen: 0, doc: '{}', forMs: null },
  ])
  await until('what was removed is forgotten', async () => (await clusterStore.prune(10, 0)) === 1)
  aheadMs = 3_600_000
  await cluster.catchUp()
  assert.equal(await clusterStore.find('cordon', cordon.key), undefined)
  assert.equal(cluster.rows('cordon').size, 0)
})

test('a store whose versions start lower again removes no node, and leaves none with a server that lost it', async () => {
  await using before = await openStore('memory')
  await using after = await openStore('memory')
  let { cluster: clusterStore } = before.backend
  const pool = { kind: 'pool', seen: 0, doc: '{}', forMs: null } as const
  for (let nr = 0; nr < 20; nr += 1) await clusterStore.write([{ ...pool, key: `p${nr}` }])
  const store: ClusterStore = {
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => clusterStore.write(writes),
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
    read: (since, limit) => clusterStore.read(since, limit),
  }
  let nowMs = 0
  const onError = (error: unknown) => assert.fail(String(error))
  const cluster = new ClusterState({
    store,
    notifier: before.backend.notifier,
    monotonicMs: () => nowMs,
    onError,
  })
  const lost: string[] = []
  const ownNodes = new OwnNodes({
    ...{ cluster, serverId: 'east', leastEpoch: () => 1, changed: () => undefined, onError },
    monotonicMs: () => performance.now(),
    lost: (nodeId) => void lost.push(nodeId),
  })
  await cluster.catchUp()
  for (const nodeId of ['stays', 'went']) {
    const caller = { nodeId, instanceId: 'one', services: [], labels: {}, epoch: 1, holder: {} }
    const entered = Promise.withResolvers<unknown>()
    ownNodes.enter({ ...caller, isThere: () => true }, entered.resolve)
    assert.ok(await entered.promise)
  }
  const { doc } = ownNodes.get('went')!
  const write = { kind: 'node', key: 'went', seen: 0, forMs: null } as const
  await after.backend.cluster.write([{ ...write, doc: JSON.stringify({ ...doc, owner: 'west' }) }])
  clusterStore = after.backend.cluster
  // So long that nothing is put back: the counter stays below what it was.
  nowMs = 3_600_000
  await cluster.catchUp()
  assert.deepEqual(lost, ['went'])
  assert.deepEqual([...ownNodes.ids()], ['stays'])
  await until('the one that stayed is there again', async () => {
    const row = await clusterStore.find('node', 'stays')
    return row !== undefined
  })
})
