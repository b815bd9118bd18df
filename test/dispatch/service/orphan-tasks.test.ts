import assert from 'node:assert/strict'
import { test } from 'vitest'
import { encodeTaskJob } from '../../../src/dispatch/tasks/task-document.ts'
import { engines, FakeNode, obliging, openStore, type Store, startDispatch, until } from './stage.ts'

/** A task that is in the store and that no dispatcher claims today. */
async function addElsewhere({ backend }: Store, taskId: string, slots: number): Promise<void> {
  const terms = {
    ...{ service: 'nmt', uses: { nmt: slots }, requires: [], prefers: [], priority: 5, tenant: 'default' },
    ...{ session: null, deadlineMs: null, idleMs: null, retryable: true },
  }
  await backend.jobs.add([{ ...encodeTaskJob(taskId, terms, 'null'), due: { delayMs: 86_400_000 } }])
}

for (const engine of engines) {
  test(`${engine}: a task that a node still runs for another server takes its slots until it has stopped`, async () => {
    await using store = await openStore(engine)
    await addElsewhere(store, 'elsewhere', 2)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const node = new FakeNode(dispatch, { services: { nmt: 3 }, running: ['elsewhere'] })
    const first = await dispatch.submit({ service: 'nmt' })
    await dispatch.submit({ service: 'nmt' })
    await until('it has what it has free slots for', () => node.tasks.length === 1)
    assert.equal(node.heard('task.stale', 'elsewhere'), 1)
    await until('all three are taken', async () => (await dispatch.node('n1'))?.services[0]?.used === 3)
    assert.equal(node.tasks.length, 1)
    const load = { cpu: null, gpu: null, memory: null }
    node.say({ type: 'heartbeat', load, running: [first.taskId, node.tasks[0]!.taskId], countedSeq: 1 })
    await until('it has the other', () => node.tasks.length === 2)
  })

  test(`${engine}: a result that waits to be settled takes no slot of a reconnected node`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const before = new FakeNode(dispatch, { onTask: obliging })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is settled', () => before.heard('task.settled', taskId) === 1)
    before.die()
    const after = new FakeNode(dispatch, { running: [taskId, 'never was'] })
    await dispatch.submit({ service: 'nmt' })
    await until('it has work', () => after.tasks.length === 1)
    assert.equal(after.heard('task.settled', taskId), 1)
    assert.equal(after.heard('task.stale', 'never was'), 1)
  })

  test(`${engine}: while the store cannot identify a node's tasks, that node gets none and others do`, async () => {
    await using store = await openStore(engine)
    await addElsewhere(store, 'elsewhere', 1)
    let answer = () => {}
    const answered = new Promise<void>((resolve) => {
      answer = resolve
    })
    const jobs = new Proxy(store.backend.jobs, {
      get(target, name) {
        if (name !== 'find') return (Reflect.get(target, name) as () => unknown).bind(target)
        return async (id: string) => {
          if (id === 'elsewhere') await answered
          return target.find(id)
        }
      },
    })
    await using stage = startDispatch(store.backend, {}, { jobs })
    const { dispatch } = stage
    const unsure = new FakeNode(dispatch, { nodeId: 'unsure', services: { nmt: 9 }, running: ['elsewhere'] })
    await until('it is there', () => unsure.heard('welcome') === 1)
    await dispatch.submit({ service: 'nmt' })
    await until('it waits', () => dispatch.counts().waiting === 1)
    const sure = new FakeNode(dispatch, { nodeId: 'sure' })
    await until('the other has it', () => sure.tasks.length === 1)
    await dispatch.submit({ service: 'nmt' })
    await until('the next waits', () => dispatch.counts().waiting === 1)
    assert.equal(unsure.tasks.length, 0)
    answer()
    await until('it has work', () => unsure.tasks.length === 1)
  })
}

test('a late message about an old attempt does not reach the attempt that the node got meanwhile', async () => {
  await using store = await openStore('memory')
  const terms = {
    ...{ service: 'nmt', uses: { nmt: 1 }, requires: [], prefers: [], priority: 5, tenant: 'default' },
    ...{ session: null, deadlineMs: null, idleMs: null, retryable: true },
  }
  let isThere = false
  const gate = Promise.withResolvers<void>()
  const looked = Promise.withResolvers<void>()
  const jobs = new Proxy(store.backend.jobs, {
    get(target, name) {
      if (name !== 'find') return (Reflect.get(target, name) as () => unknown).bind(target)
      return async (id: string) => {
        if (id !== 'moved' || !isThere) return target.find(id)
        looked.resolve()
        await gate.promise
        return target.find(id)
      }
    },
  })
  await using stage = startDispatch(store.backend, {}, { jobs })
  const { dispatch } = stage
  const node = new FakeNode(dispatch, { services: { nmt: 3 }, running: ['moved'] })
  await until('it was told once', () => node.heard('task.stale', 'moved') === 1)
  isThere = true
  const load = { cpu: null, gpu: null, memory: null }
  node.say({ type: 'heartbeat', load, running: ['moved'], countedSeq: 0 })
  await looked.promise
  // Another server gave it up: it is claimed here, and the node is given its next attempt.
  await store.backend.jobs.add([encodeTaskJob('moved', terms, 'null')])
  await until('it has the next attempt', () => node.tasks.length === 1)
  node.accept(node.tasks[0]!)
  // The lookups are answered one after the other: when this one's word is there, the one before was heard.
  gate.resolve()
  node.say({ type: 'heartbeat', load, running: ['moved', 'never was'], countedSeq: 1 })
  await until('the next lookup', () => node.heard('task.stale', 'never was') === 1)
  assert.equal(node.heard('task.stale', 'moved'), 1)
  node.finish(node.tasks[0]!)
  await until('it is settled', () => node.heard('task.settled', 'moved') === 1)
})
