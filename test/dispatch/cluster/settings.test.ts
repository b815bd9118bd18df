import assert from 'node:assert/strict'
import { test } from 'vitest'
import { engines, FakeNode, obliging, openStore, until } from '../service/stage.ts'
import { testSettings } from './settings.ts'
import { connect, ended, startServer } from './stage.ts'

for (const engine of engines) testSettings(engine, () => openStore(engine))

test('a cluster state that hangs delays new nodes, and nothing else', async () => {
  await using store = await openStore('memory')
  const backend = await store.again()
  const hang = Promise.withResolvers<void>()
  let isHanging = false
  const clusterStore = new Proxy(backend.cluster, {
    get(target, name) {
      const call = Reflect.get(target, name) as (...args: unknown[]) => unknown
      return async (...args: unknown[]) => {
        if (isHanging) await hang.promise
        return call.apply(target, args)
      }
    },
  })
  const again = async () => ({ ...backend, cluster: clusterStore })
  await using server = await startServer({ ...store, again }, 'server')
  const { dispatch } = server
  const node = await connect(dispatch, { instanceId: 'i', services: { nmt: 5 }, onTask: obliging })
  await ended(dispatch, (await dispatch.submit({ service: 'nmt' })).taskId)
  isHanging = true
  const late = new FakeNode(dispatch, { nodeId: 'late', onTask: obliging })
  const began = performance.now()
  const { taskId } = await dispatch.submit({ service: 'nmt' })
  await ended(dispatch, taskId)
  assert.ok(performance.now() - began < 3_000, 'a task does not wait for the cluster state')
  node.die()
  const back = await connect(dispatch, { instanceId: 'i', services: { nmt: 5 }, onTask: obliging })
  await ended(dispatch, (await dispatch.submit({ service: 'nmt' })).taskId)
  assert.equal(back.tasks.length, 1)
  // A new demand waits a moment for the cluster state, then the task is assigned without it.
  await ended(dispatch, (await dispatch.submit({ service: 'nmt', priority: 9, uses: { nmt: 2 } })).taskId)
  assert.equal(late.heard('welcome'), 0)
  await until('it is sent away', () => late.closedWith === 1013, 15_000)
  isHanging = false
  hang.resolve()
  const later = await connect(dispatch, { nodeId: 'late' })
  assert.equal(later.closedWith, null)
})
