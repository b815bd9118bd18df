import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Balancing } from '../../../src/dispatch/cluster/balancing.ts'
import { ClaimKinds } from '../../../src/dispatch/cluster/claim-kinds.ts'
import { ClusterDemands } from '../../../src/dispatch/cluster/cluster-demands.ts'
import { ClusterState } from '../../../src/dispatch/cluster/cluster-state.ts'
import { type ClusterStore, clusterTopic } from '../../../src/dispatch/cluster/cluster-store.ts'
import type { Sharing } from '../../../src/dispatch/cluster/server-sharing.ts'
import { MemoryClusterState } from '../../../src/storage/memory/cluster-state.ts'
import { obliging, openStore, type Store, until } from '../service/stage.ts'
import { connect, ended, startServers } from './stage.ts'

const hour = 3_600_000

/** A cluster state that can lose all it has. Versions rise over a loss. */
function losing({ backend: { notifier } }: Store): ClusterStore & { lose(): void } {
  let base = 0
  let inner = new MemoryClusterState(Date.now)
  return {
    async read(since, limit) {
      const from = since === 0 ? 0 : since < base ? Number.MAX_SAFE_INTEGER : since - base
      const page = await inner.read(from, limit)
      return { ...page, rows: page.rows.map((row) => ({ ...row, version: row.version + base })) }
    },
    async find(kind, key) {
      const row = await inner.find(kind, key)
      return row && { ...row, version: row.version + base }
    },
    async write(writes) {
      const at = base
      const versions = await inner.write(
        writes.map((write) => ({ ...write, seen: Math.max(0, write.seen - at) })),
      )
      notifier.wake(clusterTopic)
      return versions.map((version) => version && version + at)
    },
    prune: (limit, olderThanMs) => inner.prune(limit, olderThanMs),
    lose() {
      base += 1_000_000
      inner = new MemoryClusterState(Date.now)
      notifier.wake(clusterTopic)
    },
  }
}

function withClusterState({ backend, ...store }: Store, clusterStore: ClusterStore) {
  const shared = { ...backend, cluster: clusterStore }
  return { ...store, backend: shared, again: async () => shared }
}

async function removeRow({ backend: { cluster: clusterStore } }: Store, key: string): Promise<void> {
  const { version } = (await clusterStore.find('demand', key))!
  const [took] = await clusterStore.write([{ kind: 'demand', key, seen: version, doc: null, forMs: null }])
  assert.equal(typeof took, 'number')
}

test('a demand whose row was removed while its task waits is written again, and the task finds its node', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2)
  const { taskId } = await servers.last.submit({ service: 'old' })
  await until('the first server holds it', () => servers.first.counts().waiting === 1)
  await removeRow(store, 'old')
  await until(
    'its row is back',
    async () => (await store.backend.cluster.find('demand', 'old')) !== undefined,
  )
  await connect(servers.last, { services: { old: 1 }, onTask: obliging })
  await ended(servers.last, taskId)
})

test('a submit writes a removed demand row again', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2)
  await connect(servers.last, { services: { nmt: 4 }, onTask: obliging })
  const before = await servers.first.submit({ service: 'nmt' })
  await ended(servers.first, before.taskId)
  await removeRow(store, 'nmt')
  // The cluster state of the submitter has heard of it when another row that came later is there.
  await servers.first.definePool({ name: 'later', requires: [] })
  const after = await servers.first.submit({ service: 'nmt' })
  assert.equal((await store.backend.jobs.find(after.taskId))?.kind, 'nmt')
  await until(
    'its row is back',
    async () => (await store.backend.cluster.find('demand', 'nmt')) !== undefined,
  )
  await ended(servers.first, after.taskId)
})

test('a cluster state that lost everything gets back the demands of tasks and the decisions of operators', async () => {
  await using store = await openStore('memory')
  const clusterStore = losing(store)
  await using servers = await startServers(withClusterState(store, clusterStore), 2)
  await connect(servers.last, { services: { nmt: 4 }, onTask: obliging })
  const before = await servers.first.submit({ service: 'nmt' })
  await ended(servers.first, before.taskId)
  await servers.first.definePool({ name: 'p', requires: [{ label: 'zone', in: ['a'] }] })
  await servers.first.cordon('n1', { service: 'other' })
  const kept = [
    ['demand', 'nmt'],
    ['pool', 'p'],
    ['cordon', '["n1","other"]'],
  ] as const
  clusterStore.lose()
  await until('all is back', async () => {
    const rows = await Promise.all(kept.map(([kind, key]) => clusterStore.find(kind, key)))
    return rows.every((row) => row !== undefined)
  })
  assert.equal((await clusterStore.find('pool', 'p'))?.doc, '{"requires":[{"label":"zone","in":["a"]}]}')
  await until('all have it', () => servers.last.pools().some(({ name }) => name === 'p'))
  const after = await servers.first.submit({ service: 'nmt' })
  await ended(servers.first, after.taskId)
})

test('a cluster state that was away for long restores nothing, because rows may have been removed meanwhile', async () => {
  await using store = await openStore('memory')
  for (const awayMs of [60_000, hour]) {
    let nowMs = 0
    const clusterStore = losing(store)
    const { notifier } = store.backend
    const cluster = new ClusterState({
      store: clusterStore,
      notifier,
      monotonicMs: () => nowMs,
      onError: assert.ifError,
    })
    await clusterStore.write([{ kind: 'pool', key: 'p', seen: 0, doc: '{"requires":[]}', forMs: null }])
    await cluster.catchUp()
    clusterStore.lose()
    nowMs += awayMs
    await cluster.catchUp()
    assert.equal((await clusterStore.find('pool', 'p')) !== undefined, awayMs < hour)
    assert.equal(cluster.rows('pool').has('p'), awayMs < hour)
  }
})

test('the row of a demand is renewed as long as a server holds a task of it', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, notifier } = store.backend
  let nowMs = 0
  const monotonicMs = () => nowMs
  const cluster = new ClusterState({ store: clusterStore, notifier, monotonicMs, onError: assert.ifError })
  const asked = { service: 'nmt', uses: { nmt: 1 }, requires: [] }
  const demands = new ClusterDemands({
    ...{ cluster, monotonicMs, onError: assert.ifError },
    isFollowing: true,
    registry: {
      *heldKinds() {
        yield { kind: 'nmt', ...asked }
      },
    },
  })
  for (const [key, doc] of [
    ['nmt', asked],
    ['nobodys', { ...asked, service: 'nobodys' }],
  ] as const) {
    await clusterStore.write([{ kind: 'demand', key, seen: 0, doc: JSON.stringify(doc), forMs: hour }])
  }
  await cluster.catchUp()
  const leftMs = async (key: string) => (await clusterStore.find('demand', key))!.expiresAt! - Date.now()
  await demands.renewRows()
  assert.ok((await leftMs('nmt')) > 20 * hour)
  assert.ok((await leftMs('nobodys')) <= hour)
  const { version } = (await clusterStore.find('demand', 'nmt'))!
  nowMs += 120_000
  await cluster.catchUp()
  await demands.renewRows()
  assert.equal(
    (await clusterStore.find('demand', 'nmt'))?.version,
    version,
    'one that is fresh is left alone',
  )
})

test('a new demand is looked at on its own', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, notifier } = store.backend
  const monotonicMs = () => performance.now()
  const onError = assert.ifError
  const cluster = new ClusterState({ store: clusterStore, notifier, monotonicMs, onError })
  const demands = new ClusterDemands({
    cluster,
    monotonicMs,
    onError,
    isFollowing: true,
    registry: { *heldKinds() {} },
  })
  let looks = 0
  const kinds = new ClaimKinds({
    ...{ cluster, demands, monotonicMs, onError },
    wake: () => undefined,
    servers: { others: ['other'], isFirst: false },
    ownNodes: { ids: () => ['n1'], get: () => ({ isGone: false, doc: { epoch: 1 } }) },
    settings: {
      couldDo() {
        looks += 1
        return true
      },
    },
    otherNodes: {},
  } as unknown as Sharing)
  const put = (key: string) => ({
    ...({ kind: 'demand', key, seen: 0, forMs: null } as const),
    doc: JSON.stringify({ service: key, uses: { [key]: 1 }, requires: [] }),
  })
  const claimed = () => new Set(kinds.claimRequests().flatMap(({ kinds }) => kinds ?? []))
  await clusterStore.write(Array.from({ length: 300 }, (_, nr) => put(`k${nr}`)))
  await cluster.catchUp()
  await until('all are claimed', () => claimed().has('k299'))
  const before = looks
  await clusterStore.write([put('new')])
  await cluster.catchUp()
  await until('it is claimed too', () => claimed().has('new'))
  assert.equal(looks, before + 1)
})

test('a server does not yield a task before other servers could find its kind', async () => {
  const learned: string[] = []
  const balancing = new Balancing({
    kinds: { resting: [] },
    demands: { canBeFound: () => false, learn: ({ kind }: { kind: string }) => void learned.push(kind) },
    otherNodes: { capacity: async () => assert.fail('no capacity is looked for') },
    registry: {
      waitingKinds: () => [
        { kind: 'k', waiting: 1, hasCapacity: false, asked: { service: 'k', uses: { k: 1 }, requires: [] } },
      ],
    },
    mailbox: { post: () => assert.fail('nothing is given up') },
    monotonicMs: () => 0,
    onError: assert.ifError,
  } as unknown as Sharing)
  await balancing.check()
  assert.deepEqual(learned, ['k'])
})

test('a task whose demand does not fit into the cluster state goes to the server of a matching node', async () => {
  await using store = await openStore('memory')
  const doc = JSON.stringify({ service: 'other', uses: { other: 1 }, requires: [] })
  await store.backend.cluster.write(
    Array.from({ length: 5_000 }, (_, nr) => ({
      ...({ kind: 'demand', key: `other#${nr}`, seen: 0, forMs: null } as const),
      doc,
    })),
  )
  await using servers = await startServers(store, 2)
  const { taskId } = await servers.last.submit({ service: 'nmt', uses: { nmt: 2 } })
  const holder = () => servers.all.find(({ dispatch }) => dispatch.counts().waiting === 1)
  await until('a server holds it', holder)
  const other = servers.all.find((server) => server !== holder())!
  await connect(other.dispatch, { services: { nmt: 2 }, onTask: obliging })
  await ended(servers.last, taskId)
})
