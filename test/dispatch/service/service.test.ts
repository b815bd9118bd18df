import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { SubmitOptions } from '../../../src/dispatch/tasks/task.ts'
import { inGrowingLeases, Stills } from '../../support/spans.ts'
import { engines, FakeNode, history, obliging, openStore, startDispatch, until } from './stage.ts'

for (const engine of engines) {
  test(`${engine}: a task that uses three services runs once, on the one node that has them all`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const half = new FakeNode(dispatch, { nodeId: 'half', services: { asr: 4, nmt: 4 } })
    const whole = new FakeNode(dispatch, {
      nodeId: 'whole',
      services: { asr: 1, nmt: 1, tts: 1 },
      onTask: obliging,
    })
    const uses = { asr: 1, nmt: 1, tts: 1 }
    const { taskId, status } = await dispatch.submit({ service: 'nmt', uses, payload: { text: '你好' } })
    assert.equal(status, 'waiting')
    const reported = await history(dispatch, taskId)
    assert.equal(reported.at(-1)?.status, 'completed')
    const task = await dispatch.task(taskId)
    assert.equal(task?.status, 'completed')
    assert.equal(task.nodeId, 'whole')
    assert.equal(task.attempt, 1)
    assert.deepEqual(task.output, { by: 'whole', got: { text: '你好' } })
    assert.ok(task.finishedAt! >= task.submittedAt)
    await until('the node is told', () => whole.heard('task.settled', taskId) === 1)
    assert.equal(half.tasks.length, 0)
    assert.equal(dispatch.counts().completed, 1)
    assert.equal(dispatch.counts().held, 0)
    assert.ok(dispatch.node('whole')?.services.every(({ used }) => used === 0))
  })

  test(`${engine}: a burst of ten tasks goes to nodes with free slots, and no task waits for another`, async () => {
    await using store = await openStore(engine)
    const waits: number[] = []
    const observe = (kind: string, waitMs: number) => void (kind === 'submit' && waits.push(waitMs))
    await using stage = startDispatch(store.backend, {}, { observe })
    const { dispatch } = stage
    const nodes = ['a', 'b', 'c', 'd', 'e'].map(
      (nodeId) => new FakeNode(dispatch, { nodeId, services: { nmt: 2 } }),
    )
    await until('all are ready', () => nodes.every((node) => node.heard('welcome') === 1))
    const longest: number[] = []
    // The quickest of three bursts, in case the machine froze during the first.
    for (let bursts = 1; bursts <= 3 && !longest.some((ms) => ms < 200); bursts++) {
      waits.length = 0
      const burst = await Promise.all(
        Array.from({ length: 10 }, (_, payload) => dispatch.submit({ service: 'nmt', payload })),
      )
      const out = () => nodes.reduce((sum, { tasks }) => sum + tasks.length, 0)
      await until('all ten are out', () => out() === 10 * bursts)
      assert.ok(nodes.every(({ tasks }) => tasks.length === 2 * bursts))
      for (const node of nodes) for (const task of node.tasks.slice(-2)) obliging(task, node)
      await until('all are done', () => dispatch.counts().completed === 10 * bursts)
      assert.equal(new Set(burst.map(({ taskId }) => taskId)).size, 10)
      longest.push(Math.max(...waits))
    }
    // The fifth of a second is ten times what is promised for the last of ten.
    assert.ok(Math.min(...longest) < 200, `the longest waits were ${longest} ms`)
  })

  test(`${engine}: the task of a killed node runs elsewhere as the next attempt, and the late result is refused`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend, { closedGraceMs: 100 })
    const { dispatch } = stage
    const first = new FakeNode(dispatch, { nodeId: 'first', instanceId: 'one' })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => first.tasks.length === 1)
    first.accept(first.tasks[0]!)
    await until('it runs', async () => (await dispatch.task(taskId))?.status === 'running')
    const second = new FakeNode(dispatch, { nodeId: 'second' })
    first.die()
    await until('it is out again', () => second.tasks.length === 1)
    assert.equal(second.tasks[0]!.attempt, 2)
    const back = new FakeNode(dispatch, { nodeId: 'first', instanceId: 'one' })
    back.finish({ taskId, attempt: 1 }, 'late')
    await until('it is told', () => back.heard('task.stale', taskId) === 1)
    second.finish(second.tasks[0]!, 'in time')
    await until('it ended', async () => (await dispatch.task(taskId))?.status === 'completed')
    const task = await dispatch.task(taskId)
    assert.deepEqual([task?.output, task?.nodeId, task?.attempt], ['in time', 'second', 2])
    assert.equal(dispatch.counts().completed, 1)
    assert.equal(dispatch.counts().requeued, 1)
  })

  test(`${engine}: a result that is sent again after a reconnect ends its task once`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const node = new FakeNode(dispatch, { instanceId: 'one' })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => node.tasks.length === 1)
    node.accept(node.tasks[0]!)
    node.finish(node.tasks[0]!, 7)
    // The socket breaks before `task.settled` can arrive.
    node.die()
    const again = new FakeNode(dispatch, { instanceId: 'one', running: [taskId] })
    again.finish({ taskId, attempt: 1 }, 7)
    await until('it is told', () => again.heard('task.settled', taskId) > 0)
    assert.equal(again.heard('task.stale'), 0)
    again.finish({ taskId, attempt: 1 }, 8)
    await until('it is told again', () => again.heard('task.settled', taskId) > 1)
    const task = await dispatch.task(taskId)
    assert.deepEqual([task?.status, task?.output], ['completed', 7])
    assert.equal(dispatch.counts().completed, 1)
    assert.equal(again.tasks.length, 0)
  })

  test(`${engine}: a cancelled task ends as cancelled wherever it was, and its node gets a stop request`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const node = new FakeNode(dispatch)
    const running = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => node.tasks.length === 1)
    node.accept(node.tasks[0]!)
    const waiting = await dispatch.submit({ service: 'nmt' })
    await until('it waits', () => dispatch.counts().waiting === 1)
    const ended = await dispatch.cancel(waiting.taskId, { reason: 'not needed' })
    assert.equal(ended.status, 'cancelled')
    assert.deepEqual(ended.error, { code: 'cancelled', message: 'not needed' })
    assert.equal((await dispatch.cancel(running.taskId)).status, 'cancelled')
    await until('the node is told', () => node.heard('task.cancel', running.taskId) === 1)
    node.finish(node.tasks[0]!)
    await until('its late result is refused', () => node.heard('task.stale', running.taskId) === 1)
    assert.equal((await dispatch.task(running.taskId))?.status, 'cancelled')
    assert.equal((await dispatch.cancel(running.taskId)).status, 'cancelled')
    await assert.rejects(dispatch.cancel('nothing'), { code: 'not_found' })
  })

  test(`${engine}: a task that has not ended at its deadline fails with deadline_exceeded`, async () => {
    await inGrowingLeases(150, async (deadlineMs) => {
      await using store = await openStore(engine)
      await using stage = startDispatch(store.backend)
      const { dispatch } = stage
      const node = new FakeNode(dispatch)
      const ask: SubmitOptions = { service: 'nmt', deadlineMs }
      const [runs, waits] = [await dispatch.submit(ask), await dispatch.submit(ask)]
      await until('one is out', () => node.tasks.length === 1)
      node.accept(node.tasks[0]!)
      for (const { taskId } of [runs, waits]) {
        const last = (await history(dispatch, taskId)).at(-1)
        assert.equal(last?.status, 'failed')
        assert.equal((await dispatch.task(taskId))?.error?.code, 'deadline_exceeded')
      }
      await until('the node is told', () => node.heard('task.cancel') === 1)
    })
  }, 60_000)

  test(`${engine}: a failing task is retried until its attempts are spent, and then it is poison`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend, { maxAttempts: 3, policy: { retryInMs: 1 } })
    const { dispatch } = stage
    const node = new FakeNode(dispatch, { onTask: (task, self) => self.fail(task) })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    const last = (await history(dispatch, taskId)).at(-1)
    assert.equal(last?.status, 'failed')
    const task = await dispatch.task(taskId)
    assert.deepEqual([task?.error?.code, task?.attempt], ['poison', 3])
    assert.deepEqual(
      node.tasks.map(({ attempt }) => attempt),
      [1, 2, 3],
    )
    const once = await dispatch.submit({ service: 'nmt', retryable: false })
    await history(dispatch, once.taskId)
    assert.equal((await dispatch.task(once.taskId))?.error?.code, 'boom')
    assert.equal(node.tasks.length, 4)
  })

  test(`${engine}: a failed task is retried on another node, and a cancel ends it at once while it waits`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend, { policy: { retryInMs: 20 } })
    const { dispatch } = stage
    const nodes = ['a', 'b'].map((nodeId) => new FakeNode(dispatch, { nodeId, services: { nmt: 9 } }))
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    for (const attempt of [1, 2]) {
      const has = (node: FakeNode) => node.tasks.at(-1)?.attempt === attempt
      await until(`attempt ${attempt}`, () => nodes.some(has))
      const node = nodes.find(has)!
      assert.equal(node.tasks.length, 1, 'each node has it once')
      node.fail(node.tasks[0]!)
    }
    await until('it to be handed back', () => dispatch.counts().requeued === 2)
    const begunAt = performance.now()
    const task = await dispatch.cancel(taskId, { reason: 'not needed' })
    assert.deepEqual([task.status, task.error?.code], ['cancelled', 'cancelled'])
    assert.ok(performance.now() - begunAt < 1_000)
    assert.equal(dispatch.counts().tasks, 0)
  })

  test(`${engine}: the wait for the first node is measured once per task, however often it is retried`, async () => {
    await using store = await openStore(engine)
    const waits: number[] = []
    await using stage = startDispatch(
      store.backend,
      { maxAttempts: 3, policy: { retryInMs: 1 } },
      { placed: (waitedMs) => waits.push(waitedMs) },
    )
    const { dispatch } = stage
    using stills = new Stills()
    const begunAt = performance.now()
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    const waitedFrom = performance.now()
    // A wait of some length, to see that it is measured.
    await new Promise((resolve) => setTimeout(resolve, 50))
    const waitedMs = performance.now() - waitedFrom
    const node = new FakeNode(dispatch, { onTask: (task, self) => self.fail(task) })
    await history(dispatch, taskId)
    assert.equal(node.tasks.length, 3)
    assert.equal(waits.length, 1)
    // The store's clock is known from its answers, and no better than they were quick.
    const [reported] = waits
    const toleratedMs = 20 + stills.longestMs
    const mostMs = performance.now() - begunAt
    assert.ok(
      reported! >= waitedMs - toleratedMs && reported! <= mostMs + toleratedMs,
      `${reported} ms, between ${waitedMs} and ${mostMs}`,
    )
  })

  test(`${engine}: the same idempotency key returns the first task, also for concurrent submits`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const node = new FakeNode(dispatch, { services: { nmt: 10 }, onTask: obliging })
    const ask: SubmitOptions = { service: 'nmt', payload: 1, idempotencyKey: 'k' }
    const all = await Promise.all(Array.from({ length: 8 }, () => dispatch.submit(ask)))
    assert.equal(new Set(all.map(({ taskId }) => taskId)).size, 1)
    assert.equal(all.filter(({ duplicate }) => !duplicate).length, 1)
    await history(dispatch, all[0]!.taskId)
    const later = await dispatch.submit(ask)
    assert.deepEqual(later, { taskId: all[0]!.taskId, status: 'completed', duplicate: true })
    await assert.rejects(dispatch.submit({ ...ask, payload: 2 }), { code: 'idempotency_mismatch' })
    assert.equal(node.tasks.length, 1)
  })

  test(`${engine}: a submit whose server died before the answer is not written twice`, async () => {
    await using store = await openStore(engine)
    const { guards } = store.backend
    let dies = true
    const dying = {
      claim: guards.claim.bind(guards),
      settle: async (ends: Parameters<typeof guards.settle>[0]) => {
        const isLast = ends[0]?.space === 'dispatch.task'
        if (!(isLast && dies)) return guards.settle(ends)
        // Neither the word that it is written nor that it failed arrives; its lease is then ended by hand.
        if (ends[0]?.end === 'failed') await guards.settle(ends)
        throw new Error('died')
      },
    }
    await using stage = startDispatch(store.backend, {}, { guards: dying })
    const { dispatch } = stage
    const ask: SubmitOptions = { service: 'nmt', idempotencyKey: 'k' }
    await assert.rejects(dispatch.submit(ask), /died/)
    dies = false
    const node = new FakeNode(dispatch, { services: { nmt: 5 }, onTask: obliging })
    await until('it is done', () => dispatch.counts().completed === 1)
    const again = await dispatch.submit(ask)
    assert.deepEqual([again.duplicate, again.status], [true, 'completed'])
    assert.equal(again.taskId, node.tasks[0]!.taskId)
    assert.equal((await dispatch.tasks()).items.length, 1)
  })

  test(`${engine}: a submit beyond the limit of waiting tasks is refused before anything is written`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend, { policy: { maxWaiting: 3 } })
    const { dispatch } = stage
    const asks = await Promise.allSettled(
      Array.from({ length: 10 }, () => dispatch.submit({ service: 'nmt' })),
    )
    assert.equal(asks.filter(({ status }) => status === 'fulfilled').length, 3)
    const refused = asks.flatMap((ask) => (ask.status === 'rejected' ? [ask.reason] : []))
    for (const error of refused) {
      assert.equal(error.code, 'too_many')
      assert.ok(error.details.retryAfterMs >= 1_000)
    }
    assert.equal((await dispatch.tasks()).items.length, 3)
    new FakeNode(dispatch, { services: { nmt: 5 }, onTask: obliging })
    await until('there is capacity again', () => dispatch.counts().completed === 3)
    await dispatch.submit({ service: 'nmt' })
    await until('it is done', () => dispatch.counts().completed === 4)
  })
}

test('an invalid submit is refused by the name of the field, and nothing is written', async () => {
  await using store = await openStore('memory')
  await using stage = startDispatch(store.backend)
  const { dispatch } = stage
  const deep = { not: { not: { not: { not: { not: { label: 'a' } } } } } }
  const bad: object[] = [
    {},
    { service: '' },
    { service: 'nmt', servcie: 'x' },
    { service: 'nmt', uses: { asr: 1 } },
    { service: 'nmt', uses: { nmt: 0 } },
    { service: 'nmt', uses: { nmt: 1e9 } },
    { service: 'nmt', requires: [{ service: 'nmt', wher: {} }] },
    { service: 'nmt', requires: [{}] },
    { service: 'nmt', requires: [deep] },
    { service: 'nmt', requires: Array.from({ length: 65 }, () => ({ label: 'a' })) },
    { service: 'nmt', requires: [{ label: 'a', gte: Number.NaN }] },
    { service: 'nmt', priority: 10 },
    { service: 'nmt', deadlineMs: 0 },
    { service: 'nmt', payload: () => 1 },
    { service: 'nmt', retryable: 'yes' },
  ]
  for (const options of bad) {
    await assert.rejects(
      dispatch.submit(options as never),
      { code: 'invalid_argument' },
      JSON.stringify(options),
    )
  }
  await assert.rejects(dispatch.submit({ service: 'nmt', payload: 'x'.repeat(300_000) }), {
    code: 'too_large',
  })
  assert.deepEqual((await dispatch.tasks()).items, [])
})
