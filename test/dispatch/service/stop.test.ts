import assert from 'node:assert/strict'
import { test } from 'vitest'
import { FakeNode, openStore, startDispatch, until } from './stage.ts'

test('a dispatcher stops within a few seconds also when its store no longer answers', async () => {
  await using store = await openStore('memory')
  let isHung = false
  const hanging = <Target extends object>(target: Target): Target =>
    new Proxy(target, {
      get(_, name) {
        const call = Reflect.get(target, name) as unknown
        if (typeof call !== 'function') return call
        return async (...args: unknown[]) => {
          if (isHung) await new Promise(() => undefined)
          return (call as (...args: unknown[]) => unknown).apply(target, args)
        }
      },
    })
  const { backend } = store
  const stores = { ...backend, jobs: hanging(backend.jobs), cluster: hanging(backend.cluster) }
  const { dispatch } = startDispatch(stores, { leaseMs: 3_000, serverLeaseMs: 1_000 })
  const node = new FakeNode(dispatch)
  await dispatch.submit({ service: 'nmt' })
  await until('it has its task', () => node.tasks.length === 1)
  isHung = true
  // All background work hangs in a call by now: claims, leases, the cluster state, the server's own row.
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  const begunAt = performance.now()
  await dispatch.stop({ graceMs: 0 })
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs < 10_000, `it took ${tookMs} ms`)
  assert.equal(node.closedWith, 1001)
})

test('no node is read while unwritten results take too much memory', async () => {
  await using store = await openStore('memory')
  const gate = Promise.withResolvers<void>()
  const jobs = new Proxy(store.backend.jobs, {
    get(target, name) {
      if (name !== 'settle') return (Reflect.get(target, name) as () => unknown).bind(target)
      return async (...args: Parameters<typeof target.settle>) => {
        await gate.promise
        return target.settle(...args)
      }
    },
  })
  await using stage = startDispatch(store.backend, { maxHeldBytes: 1_048_576 }, { jobs })
  const { dispatch } = stage
  const node = new FakeNode(dispatch, { services: { nmt: 10 } })
  for (let nr = 0; nr < 6; nr += 1) await dispatch.submit({ service: 'nmt' })
  await until('it has its tasks', () => node.tasks.length === 6)
  for (const task of node.tasks.slice(0, 4)) node.finish(task, 'x'.repeat(250_000))
  await until('they are being written', () => dispatch.counts().unwritten === 4)
  assert.equal(node.session.isFull, false)
  const ending = await dispatch.task(node.tasks[0]!.taskId)
  assert.deepEqual([ending?.status, ending?.nodeId], ['running', node.nodeId])
  node.finish(node.tasks[4]!, 'x'.repeat(250_000))
  await until('it is too much', () => node.session.isFull)
  gate.resolve()
  await node.session.whenReady()
  await until('all are written', () => dispatch.counts().unwritten === 0)
  assert.equal(node.session.isFull, false)
})
