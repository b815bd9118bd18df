import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { NodeDoc } from '../../../src/dispatch/cluster/node-ownership.ts'
import { createDispatch } from '../../../src/dispatch/create-dispatch.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import { FakeNode, type FakeNodeOptions, obliging, openStore, type Store, until } from '../service/stage.ts'
import { connect, ended, startServer, startServers } from './stage.ts'

/** Nodes, names and crowds that change while several servers look. */

test('a node that moves to another server costs its task no attempt', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2, { maxAttempts: 2, policy: { retryInMs: 10 } })
  const offer = { nodeId: 'n', instanceId: 'i', services: { nmt: 1 } }
  const before = await connect(servers.first, offer)
  const { taskId } = await servers.last.submit({ service: 'nmt' })
  await until('it runs', () => before.tasks.length === 1)
  before.accept(before.tasks[0]!)
  before.die()
  let failures = 0
  const onTask: FakeNodeOptions['onTask'] = (task, node) => {
    node.accept(task)
    // Both attempts that it has are still to come.
    if (failures++ === 0) node.fail(task)
    else node.finish(task)
  }
  const after = await connect(servers.last, { ...offer, running: [taskId], onTask })
  await until('it is told to stop', () => after.heard('task.stale', taskId) > 0)
  after.say({ type: 'heartbeat', load: null, running: [], countedSeq: 0 } as never)
  await ended(servers.last, taskId)
})

test('a node that another instance took over at another server costs its task an attempt', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2, { maxAttempts: 1 })
  const before = await connect(servers.first, { nodeId: 'n', instanceId: 'old' })
  const { taskId } = await servers.last.submit({ service: 'nmt' })
  await until('it runs', () => before.tasks.length === 1)
  before.accept(before.tasks[0]!)
  await connect(servers.last, { nodeId: 'n', instanceId: 'new', onTask: obliging })
  await ended(servers.last, taskId, 'failed')
  assert.match((await servers.last.task(taskId))?.error?.message ?? '', /taken over by another instance/)
})

test('a node that says goodbye and hello at once is in the cluster state', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 2)
  const offer = { nodeId: 'n', instanceId: 'i', onTask: obliging }
  const before = await connect(servers.first, offer)
  before.say({ type: 'bye' })
  const after = await connect(servers.first, offer)
  await until('it is in the cluster state', async () => {
    const row = await store.backend.cluster.find('node', 'n')
    return row !== undefined && (JSON.parse(row.doc!) as NodeDoc).owner === 'server-1'
  })
  const { taskId } = await servers.last.submit({ service: 'nmt' })
  await ended(servers.last, taskId)
  assert.equal(after.closedWith, null)
})

/** A server says in the cluster state how many tasks wait there. */
async function writeLoad(store: Store, waiting: number, forMs: number): Promise<void> {
  const { cluster: clusterStore } = store.backend
  const seen = (await clusterStore.find('server', 'far'))?.version ?? 0
  const doc = JSON.stringify({ startedAt: 0, leaseMs: forMs, gone: 0, waiting, usage: {} })
  await clusterStore.write([{ kind: 'server', key: 'far', seen, doc, forMs }])
}

function isTaken(dispatch: Dispatch): Promise<boolean> {
  return dispatch.submit({ service: 'nmt' }).then(
    () => true,
    () => false,
  )
}

test('a submit-only process is refused while too many tasks wait now, and not for past waits', async () => {
  await using store = await openStore('memory')
  await using box = createDispatch({ ...store.backend, remoteWakeUps: false }, { policy: { maxWaiting: 2 } })
  await writeLoad(store, 50, 60_000)
  // A new demand is looked up in the cluster state.
  await box.submit({ service: 'nmt' })
  await assert.rejects(box.submit({ service: 'nmt' }), { code: 'too_many' })
  await writeLoad(store, 0, 60_000)
  await until('there is capacity again', () => isTaken(box))
})

test('a submit-only process does not count servers whose lease is over', async () => {
  await using store = await openStore('memory')
  await using box = createDispatch({ ...store.backend, remoteWakeUps: false }, { policy: { maxWaiting: 2 } })
  await writeLoad(store, 50, 300)
  await box.submit({ service: 'nmt' })
  await until('its lease is over', () => isTaken(box))
})

test('a server whose name another live server has reports it and continues under a new name', async () => {
  await using store = await openStore('memory')
  await using one = await startServer(store, 'same')
  await until(
    'it is in the cluster state',
    async () => (await store.backend.cluster.find('server', 'same')) !== undefined,
  )
  await using two = await startServer(store, 'same')
  const isReported = () => two.events.find(({ name }) => name === 'server.name_taken')
  await until('it noticed', isReported)
  const reported = isReported() as { readonly serverId: string; readonly renamedTo: string }
  assert.equal(reported.serverId, 'same')
  assert.match(reported.renamedTo, /^same-.+/)
  await connect(two.dispatch, { nodeId: 'n', services: { nmt: 4 }, onTask: obliging })
  await until('it is the other one’s', () => one.dispatch.node('n')?.via === reported.renamedTo)
  const tasks = await Promise.all(Array.from({ length: 8 }, () => one.dispatch.submit({ service: 'nmt' })))
  for (const { taskId } of tasks) await ended(one.dispatch, taskId)
  assert.deepEqual(
    one.events.filter(({ name }) => name === 'server.name_taken'),
    [],
  )
})

test('a node with tasks that were not looked up yet is shown as closed, also by other servers', async () => {
  await using store = await openStore('memory')
  const { jobs } = store.backend
  const slow = Promise.withResolvers<void>()
  const find: typeof jobs.find = async (taskId) => {
    if (taskId === 'orphan') await slow.promise
    return jobs.find(taskId)
  }
  const held = new Proxy(jobs, {
    get: (target, name) => (name === 'find' ? find : Reflect.get(target, name)),
  })
  await using servers = await startServers(store, 2, {}, { jobs: held })
  await connect(servers.first, { nodeId: 'n', running: ['orphan'] })
  await until('both say so', () =>
    [servers.first, servers.last].every((server) => server.node('n')?.overloaded === true),
  )
  const { taskId } = await servers.last.submit({ service: 'nmt' })
  const { readyCount, suitableCount } = await servers.last.explain(taskId)
  assert.deepEqual([readyCount, suitableCount], [0, 1])
  slow.resolve()
  await until('both say that it is open', () =>
    [servers.first, servers.last].every((server) => server.node('n')?.overloaded === false),
  )
})

test('the number of cordons is bounded', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 1)
  new FakeNode(servers.first, { nodeId: 'n' })
  const { cluster: clusterStore } = store.backend
  await clusterStore.write(
    Array.from({ length: 10_000 }, (_, at) => {
      const key = JSON.stringify(['n', `service-${at}`])
      return { kind: 'cordon', key, seen: 0, doc: '{}', forMs: null } as const
    }),
  )
  await until('the node is there', () => servers.first.node('n') !== undefined)
  await assert.rejects(servers.first.cordon('n'), { code: 'too_many' })
  await servers.first.cordon('n', { service: 'service-7' })
  await servers.first.uncordon('n', { service: 'service-7' })
  await servers.first.cordon('n')
  assert.equal(servers.first.node('n')?.cordoned, true)
})
