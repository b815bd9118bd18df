import assert from 'node:assert/strict'
import { test } from 'vitest'
import { ClusterState } from '../../../src/dispatch/cluster/cluster-state.ts'
import type { ClusterStore } from '../../../src/dispatch/cluster/cluster-store.ts'
import type { Entered, NodeDoc } from '../../../src/dispatch/cluster/node-ownership.ts'
import { type Caller, OwnNodes } from '../../../src/dispatch/cluster/own-nodes.ts'
import { openStore, type Store, until } from '../service/stage.ts'

/** Nodes at the door of one server, when another server has them meanwhile. */

interface Stage extends AsyncDisposable {
  readonly ownNodes: OwnNodes
  readonly cluster: ClusterState
  readonly clusterStore: ClusterStore
  readonly lost: string[]
  clockMs: number
  ask(caller: Partial<Caller>): Promise<Entered | null>
  /** Another server writes the node's row. */
  take(nodeId: string, instanceId?: string): Promise<void>
  ownerOf(nodeId: string): Promise<string | undefined>
}

async function stageOn(store: Store, clusterStore: ClusterStore = store.backend.cluster): Promise<Stage> {
  const onError = () => undefined
  const { notifier } = store.backend
  const cluster = new ClusterState({
    store: clusterStore,
    notifier,
    monotonicMs: () => performance.now(),
    onError,
  })
  const lost: string[] = []
  const ownNodes = new OwnNodes({
    ...{ cluster, serverId: 'server-1', onError },
    monotonicMs: () => stage.clockMs,
    leastEpoch: () => 0,
    lost: (nodeId, _epoch, elsewhere) => void lost.push(`${nodeId} ${elsewhere}`),
    changed: () => undefined,
  })
  const rowOf = async (nodeId: string) => {
    const row = await store.backend.cluster.find('node', nodeId)
    return row && { version: row.version, doc: JSON.parse(row.doc!) as NodeDoc }
  }
  const stage: Stage = {
    ...{ ownNodes, cluster, clusterStore, lost, clockMs: 0 },
    ask: (caller) =>
      new Promise((resolve) => {
        const node = { nodeId: 'n', instanceId: 'i', services: [], labels: {}, epoch: 7, holder: {} }
        ownNodes.enter({ ...node, isThere: () => true, ...caller }, resolve)
      }),
    async take(nodeId, instanceId = 'i') {
      const row = await rowOf(nodeId)
      const fresh = { epoch: 7, past: [], services: [], labels: {}, joinedAt: 0 }
      const doc = JSON.stringify({ ...fresh, ...row?.doc, instanceId, owner: 'server-2' })
      const write = { kind: 'node', key: nodeId, seen: row?.version ?? 0, doc, forMs: null } as const
      assert.notEqual((await store.backend.cluster.write([write]))[0], null)
    },
    ownerOf: async (nodeId) => (await rowOf(nodeId))?.doc.owner,
    [Symbol.asyncDispose]: () => cluster.stop(1_000),
  }
  return stage
}

test('a node is not taken from its new server by an earlier hello that timed out', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore } = store.backend
  const gate = Promise.withResolvers<void>()
  const slow: ClusterStore = {
    read: async (since, limit) => {
      await gate.promise
      return clusterStore.read(since, limit)
    },
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => clusterStore.write(writes),
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
  }
  await using stage = await stageOn(store, slow)
  const reading = stage.cluster.catchUp()
  const asked = stage.ask({})
  // Almost all of the time at the door is over when its turn comes.
  stage.clockMs = 4_990
  assert.equal(await asked, null)
  await stage.take('n')
  const next = stage.ask({ nodeId: 'other' })
  gate.resolve()
  await reading
  assert.equal((await next)?.kind, 'entered')
  assert.equal(await stage.ownerOf('other'), 'server-1')
  assert.equal(await stage.ownerOf('n'), 'server-2')
})

test('a node that left for another server and returned at once stays, whatever the registry reports late', async () => {
  await using store = await openStore('memory')
  await using stage = await stageOn(store)
  const { ownNodes, cluster, lost } = stage
  await cluster.catchUp()
  const [first, second] = [{}, {}]
  await stage.ask({ holder: first })
  ownNodes.welcomed('n', 7, first)
  await stage.take('n')
  await cluster.catchUp()
  assert.deepEqual([lost, ownNodes.has('n')], [['n moved'], false])
  await stage.ask({ holder: second })
  // The registry has only now come to forgetting the node of before, which had the same epoch.
  ownNodes.leave('n', 7)
  assert.equal(ownNodes.has('n'), true)
  ownNodes.welcomed('n', 7, first)
  ownNodes.leave('n', 7)
  assert.equal(ownNodes.has('n'), true)
  assert.equal(await stage.ownerOf('n'), 'server-1')
  ownNodes.welcomed('n', 7, second)
  ownNodes.leave('n', 7)
  assert.equal(ownNodes.has('n'), false)
})

test('a node that said goodbye and returned on a new connection is held for that connection', async () => {
  await using store = await openStore('memory')
  await using stage = await stageOn(store)
  const { ownNodes, cluster } = stage
  await cluster.catchUp()
  const [first, second] = [{}, {}]
  await stage.ask({ holder: first })
  await new Promise(setImmediate)
  ownNodes.welcomed('n', 7, first)
  const node = { nodeId: 'n', instanceId: 'i', services: [], labels: {}, epoch: 8, isThere: () => true }
  assert.equal(ownNodes.resume({ ...node, holder: second }), 7)
  ownNodes.leave('n', 7)
  assert.equal(ownNodes.has('n'), true)
  // Nothing came of the new connection.
  ownNodes.abandon('n', first)
  assert.equal(ownNodes.has('n'), true)
  ownNodes.abandon('n', second)
  assert.equal(ownNodes.has('n'), false)
})

test('a node whose other instance connected to another server counts as taken over, not as moved', async () => {
  await using store = await openStore('memory')
  await using stage = await stageOn(store)
  await stage.cluster.catchUp()
  await stage.ask({})
  await stage.take('n', 'another')
  await stage.cluster.catchUp()
  assert.deepEqual(stage.lost, ['n superseded'])
})

test('a connected node that is missing in the cluster state is written again, unless another server has it', async () => {
  await using store = await openStore('memory')
  await using stage = await stageOn(store)
  await stage.cluster.catchUp()
  const here = { isWelcomed: true, epoch: 9 }
  const entered = await stage.ask(here)
  assert.deepEqual([entered?.kind, stage.ownNodes.get('n')?.doc.epoch], ['entered', 9])
  await stage.take('elsewhere')
  assert.equal((await stage.ask({ ...here, nodeId: 'elsewhere' }))?.kind, 'elsewhere')
  assert.equal(await stage.ownerOf('elsewhere'), 'server-2')
})

test('a node that changes its offer constantly is written now and then, and finally as it is', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore } = store.backend
  let writeCount = 0
  const counting: ClusterStore = {
    read: (since, limit) => clusterStore.read(since, limit),
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => {
      writeCount += writes.length
      return clusterStore.write(writes)
    },
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
  }
  await using stage = await stageOn(store, counting)
  const { ownNodes, cluster } = stage
  await cluster.catchUp()
  assert.ok(await stage.ask({}))
  const labelOf = async () => {
    const row = await clusterStore.find('node', 'n')
    return (JSON.parse(row!.doc!) as { labels: { turn?: number } }).labels.turn
  }
  ownNodes.refresh('n', null, { turn: 1 })
  await until('the first is there soon', async () => (await labelOf()) === 1)
  for (let turn = 2; turn <= 200; turn += 1) {
    ownNodes.refresh('n', null, { turn })
    await new Promise((resolve) => setImmediate(resolve))
  }
  await until('the last is there', async () => (await labelOf()) === 200)
  assert.ok(writeCount < 50, `${writeCount} writes`)
})
