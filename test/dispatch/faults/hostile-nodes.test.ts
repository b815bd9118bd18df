import assert from 'node:assert/strict'
import { test } from 'vitest'
import { ClusterState } from '../../../src/dispatch/cluster/cluster-state.ts'
import { connect, ended, type Servers, startServers } from '../cluster/stage.ts'
import { obliging, openStore, until } from '../service/stage.ts'

/** Names that every object has, or that no assignment makes. */
const hostileNames = ['constructor', 'toString', '__proto__', 'hasOwnProperty']

const troubles = ({ all }: Servers) =>
  all.flatMap(({ events }) =>
    events.filter(({ name }) => name === 'command.failed' || name === 'store.trouble'),
  )

test('nodes, services, tags, labels and pools may have the names of built-in object properties', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2)
  for (const name of hostileNames) {
    await connect(servers.first, {
      ...{ nodeId: name, onTask: obliging },
      services: Object.fromEntries([[name, 1]]),
      tags: Object.fromEntries([[name, ['yes']]]),
      labels: Object.fromEntries([[name, 'yes']]),
    })
    await servers.last.definePool({ name, requires: [{ label: name, in: ['yes'] }] })
    const plain = await servers.last.submit({ service: name })
    const picky = await servers.last.submit({
      service: name,
      requires: [
        { service: name, where: Object.fromEntries([[name, 'yes']]) },
        { label: name, in: ['yes'] },
        { label: 'pool', in: [name] },
      ],
    })
    for (const { taskId } of [plain, picky]) {
      await ended(servers.last, taskId)
      assert.equal((await servers.last.task(taskId))?.nodeId, name)
    }
  }
  for (const { dispatch } of servers.all) {
    await until('all are seen', () => dispatch.nodes().length === hostileNames.length)
    assert.deepEqual(
      dispatch
        .nodes()
        .map(({ nodeId }) => nodeId)
        .sort(),
      [...hostileNames].sort(),
    )
  }
  assert.deepEqual(troubles(servers), [])
})

test('inherited object properties are not tags, and a task that requires one stops no other task', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2)
  const node = await connect(servers.first, { services: { nmt: 4 }, onTask: obliging })
  const vain: string[] = []
  for (const name of hostileNames) {
    const where = Object.fromEntries([[name, 'x']])
    for (const requires of [
      [{ service: 'nmt', where }],
      [{ label: name }],
      [{ label: 'pool', in: [name] }],
    ]) {
      vain.push((await servers.last.submit({ service: 'nmt', requires })).taskId)
    }
  }
  await until('a server holds them', () => servers.first.counts().waiting === vain.length)
  const late = await connect(servers.first, { nodeId: 'late', services: { asr: 1 }, onTask: obliging })
  for (const service of ['nmt', 'asr']) {
    const { taskId } = await servers.last.submit({ service })
    await ended(servers.last, taskId)
  }
  assert.deepEqual([node.tasks.length, late.tasks.length], [1, 1])
  for (const taskId of vain) assert.equal((await servers.last.task(taskId))?.status, 'waiting')
  assert.deepEqual(troubles(servers), [])
})

test('rows that cannot be decoded stop no server', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore } = store.backend
  await using servers = await startServers(store, 2)
  const rows = [
    ['demand', 'null', 'null'],
    ['demand', 'empty', '{}'],
    ['node', 'null', 'null'],
    ['node', 'empty', '{}'],
    ['cordon', 'no list', '{}'],
  ] as const
  const written = await clusterStore.write(
    rows.map(([kind, key, doc]) => ({ kind, key, doc, seen: 0, forMs: null })),
  )
  assert.ok(written.every((version) => version !== null))
  await connect(servers.first, { services: { tts: 1 }, onTask: obliging })
  const { taskId } = await servers.last.submit({ service: 'tts' })
  await ended(servers.last, taskId)
})

test('a reader that throws on a row hides neither that row from others nor the next rows', async () => {
  await using store = await openStore('memory')
  const { cluster: clusterStore, notifier } = store.backend
  const reported: string[] = []
  const troubles: unknown[] = []
  const onError = (error: unknown) => void troubles.push(error)
  const cluster = new ClusterState({
    store: clusterStore,
    notifier,
    monotonicMs: () => performance.now(),
    onError,
  })
  cluster.onChange(({ key }) => {
    if (key.startsWith('bad')) throw new Error('cannot bear it')
  })
  cluster.onChange(({ key }) => void reported.push(key))
  for (const key of ['bad', 'good', 'bad too', 'good too']) {
    await clusterStore.write([{ kind: 'pool', key, doc: '{}', seen: 0, forMs: null }])
    await cluster.catchUp()
  }
  assert.deepEqual(reported, ['bad', 'good', 'bad too', 'good too'])
  assert.equal(troubles.length, 2)
})
