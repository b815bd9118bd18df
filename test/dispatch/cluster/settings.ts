/** Pools, cordons and drains for all servers, on any engine. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createDispatch } from '../../../src/dispatch/create-dispatch.ts'
import { obliging, until } from '../service/stage.ts'
import { connect, ended, type Shared, serverCounts, startServer, startServers } from './stage.ts'

/** Tests operators' settings on one engine. */
export function testSettings(engine: string, open: () => Promise<Shared & AsyncDisposable>): void {
  for (const count of serverCounts) {
    const where = `${engine}, ${count} server${count === 1 ? '' : 's'}`

    test(`${where}: a drain requested at any server reaches the node, and any server can lift it`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first, { services: { nmt: 2 } })
      const running = await servers.last.submit({ service: 'nmt' })
      await until('it runs', () => node.tasks.length === 1)
      assert.equal((await servers.last.drain('n1')).draining, true)
      await until('the node is told', () => node.heard('drain') >= 1)
      for (const { dispatch } of servers.all)
        await until('all see it', () => dispatch.node('n1')?.draining === true)
      const { taskId } = await servers.last.submit({ service: 'nmt' })
      await until('it waits', () => servers.all.some(({ dispatch }) => dispatch.counts().waiting === 1))
      node.finish(node.tasks[0]!)
      await ended(servers.last, running.taskId)
      assert.equal(node.tasks.length, 1)
      assert.equal((await servers.last.drain('n1', { on: false })).draining, false)
      await until('it is given out', () => node.tasks.length === 2)
      node.finish(node.tasks[1]!)
      await ended(servers.last, taskId)
    })

    test(`${where}: the deadline of a drain counts on the server that has the node`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first)
      const { taskId } = await servers.last.submit({ service: 'nmt' })
      await until('it runs', () => node.tasks.length === 1)
      node.accept(node.tasks[0]!)
      await servers.last.drain('n1', { deadlineMs: 200 })
      await until('it is taken away', () => node.heard('task.cancel', taskId) === 1)
      const other = await connect(servers.last, { nodeId: 'n2', onTask: obliging })
      await ended(servers.last, taskId)
      assert.equal(other.tasks.length, 1)
    })

    test(`${where}: a cordon requested at any server closes the node, or one service of it`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first, { services: { asr: 1, nmt: 1 }, onTask: obliging })
      await servers.last.cordon('n1', { service: 'nmt' })
      await until('it counts', () => servers.first.node('n1')?.services[1]?.cordoned === true)
      const closed = await servers.last.submit({ service: 'nmt' })
      const openTask = await servers.last.submit({ service: 'asr' })
      await ended(servers.last, openTask.taskId)
      assert.equal((await servers.last.task(closed.taskId))?.finishedAt, null)
      await servers.last.uncordon('n1', { service: 'nmt' })
      await ended(servers.last, closed.taskId)
      assert.equal(node.tasks.length, 2)
      await servers.last.cordon('n1')
      node.say({ type: 'bye' })
      await until('it is forgotten', () => servers.last.node('n1') === undefined)
      await servers.last.uncordon('n1')
      await assert.rejects(servers.last.uncordon('n1'), { code: 'not_found' })
      await assert.rejects(servers.last.cordon('unknown'), { code: 'not_found' })
      await assert.rejects(servers.last.drain('unknown'), { code: 'not_found' })
    })

    test(`${where}: a pool defined at one server applies at all, and its removal removes it at all`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      await servers.last.definePool({ name: 'large', requires: [{ label: 'memoryGb', gte: 40 }] })
      const small = await connect(servers.first, { nodeId: 'small', labels: { memoryGb: 8 } })
      const large = await connect(servers.first, {
        nodeId: 'large',
        labels: { memoryGb: 64 },
        onTask: obliging,
      })
      const requires = [{ label: 'pool', in: ['large'] }]
      const { taskId } = await servers.last.submit({ service: 'nmt', requires })
      await ended(servers.last, taskId)
      assert.deepEqual([small.tasks.length, large.tasks.length], [0, 1])
      assert.equal(await servers.last.removePool('large'), true)
      assert.equal(await servers.last.removePool('large'), false)
      for (const { dispatch } of servers.all) {
        await until('it is gone', () => !dispatch.pools().some(({ name }) => name === 'large'))
      }
    })
  }

  test(`${engine}: pools, cordons and drains are loaded after a restart before any task is placed`, async () => {
    await using store = await open()
    const before = await startServer(store, 'before')
    await before.dispatch.definePool({ name: 'eu', requires: [{ label: 'region', in: ['eu'] }] })
    const options = { instanceId: 'i', labels: { region: 'eu' } }
    await connect(before.dispatch, { nodeId: 'drained', ...options })
    await connect(before.dispatch, { nodeId: 'cordoned', ...options })
    await before.dispatch.drain('drained')
    await before.dispatch.cordon('cordoned')
    await before.dispatch.stop({ graceMs: 0 })
    await using after = await startServer(store, 'after')
    const requires = [{ label: 'pool', in: ['eu'] }]
    const { taskId } = await after.dispatch.submit({ service: 'nmt', requires })
    const closed = [
      await connect(after.dispatch, { nodeId: 'drained', ...options }),
      await connect(after.dispatch, { nodeId: 'cordoned', ...options }),
    ]
    const free = await connect(after.dispatch, { nodeId: 'open', ...options, onTask: obliging })
    await ended(after.dispatch, taskId)
    assert.equal(free.tasks.length, 1)
    assert.deepEqual(
      closed.map(({ tasks }) => tasks.length),
      [0, 0],
    )
    assert.deepEqual(
      [after.dispatch.node('drained')?.draining, after.dispatch.node('cordoned')?.cordoned],
      [true, true],
    )
  })

  test(`${engine}: a drain ends when a new instance of the node connects`, async () => {
    await using store = await open()
    await using servers = await startServers(store, 3)
    await connect(servers.first, { instanceId: 'one' })
    await servers.last.drain('n1')
    const fresh = await connect(servers.last, { instanceId: 'two', onTask: obliging })
    const { taskId } = await servers.first.submit({ service: 'nmt' })
    await ended(servers.first, taskId)
    assert.equal(fresh.tasks.length, 1)
  })

  test(`${engine}: a process without dispatch can drain, cordon and define pools for the dispatchers`, async () => {
    await using store = await open()
    await using server = await startServer(store, 'server')
    const node = await connect(server.dispatch, { onTask: obliging })
    const { jobs, logs, guards, notifier, cluster } = await store.again()
    await using library = createDispatch({ jobs, logs, guards, notifier, cluster })
    await library.definePool({ name: 'all', requires: [] })
    await until('it counts', () => server.dispatch.pools().some(({ name }) => name === 'all'))
    await library.cordon('n1')
    await until('it counts', () => server.dispatch.node('n1')?.cordoned === true)
    const { taskId } = await library.submit({ service: 'nmt' })
    const why = await library.explain(taskId)
    assert.deepEqual(why.nearest, [{ nodeId: 'n1', missing: ['not cordoned'] }])
    await library.uncordon('n1')
    await ended(library, taskId)
    assert.equal((await library.drain('n1')).draining, true)
    await until('the node is told', () => node.heard('drain') >= 1)
    assert.equal(await library.removePool('all'), true)
  })
}
