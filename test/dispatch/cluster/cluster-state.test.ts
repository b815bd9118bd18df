import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type ClusterChange, ClusterState } from '../../../src/dispatch/cluster/cluster-state.ts'
import type { ClusterKind, ClusterStore } from '../../../src/dispatch/cluster/cluster-store.ts'
import { anyKind } from '../../../src/dispatch/tasks/task-document.ts'
import { obliging, openStore, type Store, until } from '../service/stage.ts'
import { connect, ended, startServer, startServers } from './stage.ts'

function clusterOn({ backend }: Store, store: ClusterStore = backend.cluster) {
  const changes: string[] = []
  const troubles: unknown[] = []
  const cluster = new ClusterState({
    store,
    notifier: backend.notifier,
    monotonicMs: () => performance.now(),
    onError: (error) => troubles.push(error),
  })
  cluster.onChange(({ kind, key, row }: ClusterChange) => {
    changes.push(`${row === undefined ? '-' : '+'}${kind} ${key}`)
  })
  return { cluster, changes, troubles }
}

const put = (kind: ClusterKind, key: string, seen = 0, doc: string | null = '{}') => ({
  ...{ kind, key, seen, doc, forMs: null },
})

test('the cluster state reads everything that was written before, and reports each change once', async () => {
  await using store = await openStore('memory')
  const { cluster, changes } = clusterOn(store)
  const { cluster: clusterStore } = store.backend
  const [version] = await clusterStore.write([put('pool', 'a'), put('cordon', 'b')])
  await cluster.catchUp()
  await clusterStore.write([put('pool', 'a', version!, null), put('pool', 'c')])
  await Promise.all([cluster.catchUp(), cluster.catchUp(), cluster.catchUp()])
  assert.deepEqual(changes, ['+pool a', '+cordon b', '-pool a', '+pool c'])
  assert.deepEqual([...cluster.rows('pool').keys()], ['c'])
})

test('a cluster state that was away too long drops removed rows, and never shows half of the rows', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore } = store.backend
  let isReset = false
  const forgetful: ClusterStore = {
    find: (kind, key) => clusterStore.find(kind, key),
    write: (writes) => clusterStore.write(writes),
    prune: (limit, olderThanMs) => clusterStore.prune(limit, olderThanMs),
    async read(since, limit) {
      if (!isReset) return clusterStore.read(since, limit)
      isReset = false
      return { ...(await clusterStore.read(0, limit)), isReset: true }
    },
  }
  const { cluster, changes } = clusterOn(store, forgetful)
  const versions = await clusterStore.write(Array.from({ length: 700 }, (_, nr) => put('node', `n${nr}`)))
  await cluster.catchUp()
  await clusterStore.write([put('node', 'n3', versions[3]!, null), put('node', 'late')])
  changes.length = 0
  isReset = true
  let least = Number.POSITIVE_INFINITY
  const looking = setInterval(() => {
    least = Math.min(least, cluster.rows('node').size)
  }, 0)
  await cluster.catchUp()
  clearInterval(looking)
  assert.equal(cluster.rows('node').size, 700)
  assert.ok(least >= 700, `${least} of 700 at some moment`)
  assert.ok(changes.includes('-node n3') && changes.includes('+node late'))
})

test('of many concurrent changes of one row, every change counts', async () => {
  await using store = await openStore('memory')
  const clusters = Array.from({ length: 4 }, () => clusterOn(store).cluster)
  const add = (doc: unknown) => ({ doc: ((doc as number | undefined) ?? 0) + 1, forMs: null })
  await Promise.all(clusters.map((cluster) => cluster.change('demand', 'count', (row) => add(row?.doc))))
  assert.equal((await store.backend.cluster.find('demand', 'count'))?.doc, '4')
})

test('a row that is not a valid document is skipped and reported', async () => {
  await using store = await openStore('memory')
  const { cluster, troubles } = clusterOn(store)
  await store.backend.cluster.write([put('pool', 'broken', 0, 'no JSON'), put('pool', 'whole')])
  await cluster.catchUp()
  assert.deepEqual([[...cluster.rows('pool').keys()], troubles.length], [['whole'], 1])
})

test('tasks with more demands than the cluster state can hold are claimed by any server, and find their node', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, jobs } = store.backend
  const doc = JSON.stringify({ service: 'other', uses: { other: 1 }, requires: [] })
  await clusterStore.write(Array.from({ length: 5_000 }, (_, nr) => put('demand', `other#${nr}`, 0, doc)))
  await using servers = await startServers(store, 3)
  const node = await connect(servers.first, { services: { nmt: 3 }, onTask: obliging })
  const tasks = await Promise.all(
    [1, 2, 3].map(() => servers.last.submit({ service: 'nmt', uses: { nmt: 2 } })),
  )
  for (const { taskId } of tasks) {
    await ended(servers.last, taskId)
    assert.equal((await jobs.find(taskId))?.kind, anyKind)
  }
  assert.equal(node.tasks.length, 3)
})

test('a server that was declared dead by mistake restores itself and its nodes', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore } = store.backend
  await using server = await startServer(store, 'server', { serverLeaseMs: 600 })
  const node = await connect(server.dispatch, { onTask: obliging })
  for (const [kind, key] of [
    ['server', 'server'],
    ['node', 'n1'],
  ] as const) {
    await until('it is there', async () => (await clusterStore.find(kind, key)) !== undefined)
    const { version } = (await clusterStore.find(kind, key))!
    const [took] = await clusterStore.write([put(kind, key, version, null)])
    assert.ok(typeof took === 'number' || kind === 'server', 'the row was taken away')
    await until('it is back', async () => {
      const row = await clusterStore.find(kind, key)
      return row !== undefined && row.version > version
    })
  }
  const { taskId } = await server.dispatch.submit({ service: 'nmt' })
  await ended(server.dispatch, taskId)
  assert.equal(node.closedWith, null)
})

test('all servers learn the new offer of a node', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 3)
  const node = await connect(servers.first, { onTask: obliging })
  const { taskId } = await servers.last.submit({
    service: 'tts',
    requires: [{ label: 'voice', in: ['anna'] }],
  })
  node.say({
    type: 'update',
    services: [{ name: 'tts', slots: 1, tags: {} }],
    labels: { voice: 'anna' },
  })
  await ended(servers.last, taskId)
  await until('it is seen', () => servers.last.node('n1')?.services[0]?.name === 'tts')
})

test('a node that says goodbye disappears from all servers', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 3)
  const node = await connect(servers.first)
  await until('it is seen', () => servers.last.node('n1') !== undefined)
  await servers.last.drain('n1')
  node.say({ type: 'bye' })
  for (const { dispatch } of servers.all) await until('it is gone', () => dispatch.node('n1') === undefined)
  await until('its drain goes with it', async () => !(await store.backend.cluster.find('drain', 'n1')))
})
