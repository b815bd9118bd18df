import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../src/core/errors.ts'
import type { JobStore } from '../../../src/jobs/index.ts'
import { inGrowingLeases } from '../../support/spans.ts'
import { engines, FakeNode, history, obliging, openStore, startDispatch, until } from '../service/stage.ts'

/** A store that a process can lose: after `kill` nothing of it is heard again. */
function mortal(jobs: JobStore) {
  let isDead = false
  const store = new Proxy(jobs, {
    get(target, name) {
      const call = Reflect.get(target, name) as unknown
      if (typeof call !== 'function') return call
      return async (...args: unknown[]) => {
        if (isDead) throw new SignalboxError('closed', 'This process is dead.')
        return (call as (...args: unknown[]) => unknown).apply(target, args)
      }
    },
  })
  return {
    store,
    kill() {
      isDead = true
    },
  }
}

for (const engine of engines) {
  test(`${engine}: a dispatcher that dies loses no task: the next one takes up all unfinished tasks`, async () => {
    await inGrowingLeases(400, async (leaseMs) => {
      await using store = await openStore(engine)
      const { store: jobs, kill } = mortal(store.backend.jobs)
      await using first = startDispatch(store.backend, { leaseMs }, { jobs })
      const node = new FakeNode(first.dispatch, { services: { nmt: 20 } })
      const submitted = await Promise.all(
        Array.from({ length: 50 }, (_, payload) => first.dispatch.submit({ service: 'nmt', payload })),
      )
      await until('as many are out as there is capacity for', () => node.tasks.length === 20)
      for (const task of node.tasks.slice(0, 10)) node.finish(task, task.payload)
      await until('ten are done', () => first.dispatch.counts().completed === 10)
      kill()
      node.die()

      const backend = await store.again()
      await using second = startDispatch(backend)
      const { dispatch } = second
      const runs = new Map<string, number>()
      new FakeNode(dispatch, {
        services: { nmt: 20 },
        onTask: (task, self) => {
          runs.set(task.taskId, (runs.get(task.taskId) ?? 0) + 1)
          self.finish(task, task.payload)
        },
      })
      await until('the others are done', () => dispatch.counts().completed === 40, 20_000)
      for (const [payload, { taskId }] of submitted.entries()) {
        const task = await dispatch.task(taskId)
        assert.deepEqual([task?.status, task?.output], ['completed', payload])
      }
      assert.equal(runs.size, 40)
      assert.ok([...runs.values()].every((count) => count === 1))
    })
  }, 60_000)

  test(`${engine}: a stopping dispatcher lets tasks end, and hands back the others without spending an attempt`, async () => {
    await inGrowingLeases(300, async (graceMs) => {
      await using store = await openStore(engine)
      const { dispatch } = startDispatch(store.backend)
      const node = new FakeNode(dispatch, { services: { nmt: 2 } })
      const submitted = []
      for (let count = 0; count < 3; count += 1) submitted.push(await dispatch.submit({ service: 'nmt' }))
      await until('two are out', () => node.tasks.length === 2 && dispatch.counts().waiting === 1)
      const stopped = dispatch.stop({ graceMs })
      await assert.rejects(dispatch.submit({ service: 'nmt' }), { code: 'draining' })
      node.finish(node.tasks[0]!)
      await stopped
      assert.equal(node.heard('task.settled'), 1)
      // The freed slot was given to no task.
      assert.equal(node.tasks.length, 2)
      assert.equal(node.heard('task.cancel', node.tasks[1]!.taskId), 1)
      assert.equal(node.closedWith, 1001)

      await using next = startDispatch(await store.again(), { maxAttempts: 1 })
      const other = new FakeNode(next.dispatch, { services: { nmt: 2 }, onTask: obliging })
      for (const { taskId } of submitted) await history(next.dispatch, taskId)
      const ended = await Promise.all(submitted.map(({ taskId }) => next.dispatch.task(taskId)))
      assert.deepEqual(
        ended.map((task) => task?.status),
        ['completed', 'completed', 'completed'],
      )
      // Never the same number twice: the first node's late result must not pass for the second's.
      assert.ok(other.tasks.every(({ attempt }) => attempt === 2))
    })
  }, 60_000)

  test(`${engine}: a dispatcher finds and runs a task that a submit-only process submitted`, async () => {
    await using store = await openStore(engine)
    const { createDispatch } = await import('../../../src/dispatch/create-dispatch.ts')
    const { jobs, logs, guards, notifier, cluster } = await store.again()
    await using library = createDispatch({ jobs, logs, guards, notifier, cluster })
    const { taskId } = await library.submit({ service: 'nmt', payload: 'far' })
    await using stage = startDispatch(store.backend)
    const node = new FakeNode(stage.dispatch, { onTask: obliging })
    const reported = await history(library, taskId)
    assert.equal(reported.at(-1)?.status, 'completed')
    assert.deepEqual((await library.task(taskId))?.output, { by: 'n1', got: 'far' })
    const other = await library.submit({ service: 'missing' })
    await until('it is claimed', () => stage.dispatch.counts().waiting === 1)
    assert.equal((await library.cancel(other.taskId)).status, 'cancelled')
    await until('nothing waits', () => stage.dispatch.counts().tasks === 0)
    assert.equal(node.tasks.length, 1)
  })

  test(`${engine}: a result whose claim was lost is refused, and the task runs again`, async () => {
    await inGrowingLeases(300, async (leaseMs) => {
      await using store = await openStore(engine)
      let isCut = false
      const { jobs } = store.backend
      const cut = new Proxy(jobs, {
        get(target, name) {
          const call = Reflect.get(target, name) as (...args: unknown[]) => unknown
          if (typeof call !== 'function') return call
          return async (...args: unknown[]) => {
            if (isCut) throw new SignalboxError('store_unavailable', 'The store does not answer.')
            return call.apply(target, args)
          }
        },
      })
      await using stage = startDispatch(store.backend, { leaseMs }, { jobs: cut })
      const { dispatch } = stage
      const node = new FakeNode(dispatch)
      const { taskId } = await dispatch.submit({ service: 'nmt' })
      await until('it is out', () => node.tasks.length === 1)
      isCut = true
      await until('its claim is given up', () => dispatch.counts().lost === 1, 10_000 + leaseMs)
      node.finish(node.tasks[0]!, 'late')
      isCut = false
      await until('it is out again', () => node.tasks.length === 2)
      assert.equal(node.tasks[1]!.attempt, 2)
      node.finish(node.tasks[1]!, 'in time')
      await until('it is done', () => dispatch.counts().completed === 1)
      assert.equal((await dispatch.task(taskId))?.output, 'in time')
    })
  }, 60_000)
}
