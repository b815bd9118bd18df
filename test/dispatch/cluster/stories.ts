/**
 * The promises of servers that share a fleet, on any engine: nodes connect to the first server, tasks come to the last.
 */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { FakeNode, obliging, until } from '../service/stage.ts'
import { connect, ended, type Shared, serverCounts, startServer, startServers } from './stage.ts'

/** Runs all stories on one engine, with one server and with three. */
export function testStories(engine: string, open: () => Promise<Shared & AsyncDisposable>): void {
  for (const count of serverCounts) {
    const where = `${engine}, ${count} server${count === 1 ? '' : 's'}`

    test(`${where}: a task that arrives at one server runs once, on the node of another`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first, { services: { nmt: 2 }, onTask: obliging })
      const tasks = await Promise.all(
        Array.from({ length: 20 }, (_, payload) => servers.last.submit({ service: 'nmt', payload })),
      )
      for (const { taskId } of tasks) await ended(servers.last, taskId)
      assert.equal(node.tasks.length, 20)
      const task = await servers.last.task(tasks[7]!.taskId)
      assert.deepEqual([task?.output, task?.nodeId], [{ by: 'n1', got: 7 }, 'n1'])
    })

    test(`${where}: tasks with requirements find their node, also when the demand is new`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const ask = {
        service: 'nmt',
        uses: { asr: 1, nmt: 2 },
        requires: [{ service: 'nmt', where: { pair: 'zh>en' } }],
      }
      const { taskId } = await servers.last.submit(ask)
      await connect(servers.last, { nodeId: 'other', services: { nmt: 9 }, onTask: obliging })
      const node = await connect(servers.first, {
        services: { asr: 1, nmt: 2 },
        tags: { pair: ['zh>en'] },
        onTask: obliging,
      })
      await ended(servers.last, taskId)
      assert.equal(node.tasks.length, 1)
    })

    test(`${where}: a server yields a waiting task when a matching node connects to another server`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const busy = await connect(servers.last, { nodeId: 'busy' })
      const first = await servers.last.submit({ service: 'nmt' })
      await until('the node is busy', () => busy.tasks.length === 1)
      const second = await servers.last.submit({ service: 'nmt' })
      await until('it waits', () => servers.all.some(({ dispatch }) => dispatch.counts().waiting === 1))
      const began = performance.now()
      const free = await connect(servers.first, { nodeId: 'free', onTask: obliging })
      await ended(servers.last, second.taskId)
      assert.equal(free.tasks.length, 1)
      assert.ok(performance.now() - began < 5_000, 'far sooner than by any lease')
      assert.equal((await servers.last.task(second.taskId))?.error, null)
      busy.finish(busy.tasks[0]!)
      await ended(servers.last, first.taskId)
    })

    test(`${where}: a cancel at one server reaches the node of another`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first)
      const { taskId } = await servers.last.submit({ service: 'nmt' })
      await until('it runs', () => node.tasks.length === 1)
      node.accept(node.tasks[0]!)
      assert.equal((await servers.last.cancel(taskId)).status, 'cancelled')
      await until('the node is told', () => node.heard('task.cancel', taskId) === 1)
      const waiting = await servers.last.submit({ service: 'missing' })
      assert.equal((await servers.last.cancel(waiting.taskId)).status, 'cancelled')
    })

    test(`${where}: every server shows all nodes, and explains why a task waits`, async () => {
      await using store = await open()
      await using servers = await startServers(store, count)
      const node = await connect(servers.first, { services: { nmt: 2 }, labels: { region: 'eu' } })
      const { taskId } = await servers.last.submit({ service: 'nmt' })
      await until('it runs', () => node.tasks.length === 1)
      for (const { dispatch } of servers.all) {
        await until('it is seen with its use', () => dispatch.nodes()[0]?.services[0]?.used === 1)
        const [view, ...others] = dispatch.nodes()
        assert.deepEqual(
          [view?.nodeId, view?.status, view?.labels, others],
          ['n1', 'ready', { region: 'eu' }, []],
        )
        assert.equal(dispatch.node('n1')?.instanceId, view?.instanceId)
        assert.equal(view?.via, dispatch === servers.first ? null : 'server-1')
      }
      const stuck = await servers.last.submit({ service: 'nmt', requires: [{ label: 'region', in: ['us'] }] })
      const why = await servers.last.explain(stuck.taskId)
      assert.deepEqual([why.nodeCount, why.readyCount, why.nearest[0]?.nodeId], [1, 0, 'n1'])
      assert.deepEqual(why.nearest[0]?.missing, ['label region in [us]'])
      node.finish(node.tasks[0]!)
      await ended(servers.last, taskId)
    })

    test(`${where}: a killed server loses no task: other servers finish its tasks`, async () => {
      await using store = await open()
      const times = { leaseMs: 900, serverLeaseMs: 900 }
      await using servers = await startServers(store, count, times)
      const node = await connect(servers.first, { services: { nmt: 1 } })
      const tasks = await Promise.all(
        [1, 2, 3].map((payload) => servers.last.submit({ service: 'nmt', payload })),
      )
      await until('one runs', () => node.tasks.length === 1)
      servers.all[0]!.kill()
      node.die()
      if (count === 1) servers.all[0]!.dispatch.stop({ graceMs: 0 })
      const heir = count === 1 ? await startServer(store, 'heir', times) : null
      const survivor = heir?.dispatch ?? servers.last
      const other = await connect(survivor, { nodeId: 'n2', services: { nmt: 1 }, onTask: obliging })
      for (const { taskId } of tasks) await ended(survivor, taskId)
      assert.equal(other.tasks.length, 3)
      await heir?.[Symbol.asyncDispose]()
    }, 30_000)
  }

  test(`${engine}: a node that moves to another server with its task never gets more tasks than free slots`, async () => {
    await using store = await open()
    await using servers = await startServers(store, 3)
    const old = await connect(servers.first, { instanceId: 'i' })
    const { taskId } = await servers.last.submit({ service: 'nmt' })
    await until('it runs', () => old.tasks.length === 1)
    old.accept(old.tasks[0]!)
    const second = await servers.last.submit({ service: 'nmt' })
    // The same process comes to another server, while the first still has its socket.
    const moved = new FakeNode(servers.last, { instanceId: 'i', running: [taskId] })
    await until('it is welcomed', () => moved.heard('welcome') === 1)
    await until('the first lets it go', () => old.closedWith === 4408)
    await until('it is told to drop the task', () => moved.heard('task.stale', taskId) >= 1)
    assert.equal(moved.tasks.length, 0, 'its one slot is taken by what it still runs')
    // It stopped: the slot is free.
    moved.say({
      type: 'heartbeat',
      load: { cpu: null, gpu: null, memory: null },
      running: [],
      countedSeq: 0,
    })
    for (let done = 0; done < 2; done += 1) {
      await until('the next one comes', () => moved.tasks.length === done + 1)
      const task = moved.tasks[done]!
      moved.finish(task)
      await ended(servers.last, task.taskId)
    }
    await ended(servers.last, taskId)
    await ended(servers.last, second.taskId)
    assert.ok((await servers.last.task(taskId))!.attempt >= 2, 'the attempt of before does not count')
  }, 30_000)

  test(`${engine}: a second instance of a node at another server takes over, and the first stays out`, async () => {
    await using store = await open()
    await using servers = await startServers(store, 3)
    const one = await connect(servers.first, { instanceId: 'one' })
    const two = await connect(servers.last, { instanceId: 'two', onTask: obliging })
    await until('the first is closed', () => one.closedWith !== null)
    const back = new FakeNode(servers.all[1]!.dispatch, { instanceId: 'one' })
    await until('it is refused', () => back.closedWith === 4409)
    const { taskId } = await servers.first.submit({ service: 'nmt' })
    await ended(servers.first, taskId)
    assert.equal(two.tasks.length, 1)
  })
}
