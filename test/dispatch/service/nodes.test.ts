import assert from 'node:assert/strict'
import { test } from 'vitest'
import { inGrowingLeases } from '../../support/spans.ts'
import { engines, FakeNode, history, obliging, openStore, startDispatch, until } from './stage.ts'

for (const engine of engines) {
  test(`${engine}: a drained node finishes its tasks and gets no new ones`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch, events } = stage
    const node = new FakeNode(dispatch, { services: { nmt: 2 } })
    const first = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => node.tasks.length === 1)
    assert.equal((await dispatch.drain('n1')).draining, true)
    assert.equal(node.heard('drain'), 1)
    const second = await dispatch.submit({ service: 'nmt' })
    await until('it waits', () => dispatch.counts().waiting === 1)
    node.finish(node.tasks[0]!)
    await until('it is done', async () => (await dispatch.task(first.taskId))?.status === 'completed')
    await until('the node is empty', () => events.some(({ name }) => name === 'node.drained'))
    assert.equal(node.tasks.length, 1)
    await dispatch.drain('n1', { on: false })
    await until('it is out', () => node.tasks.length === 2)
    assert.equal(node.tasks[1]!.taskId, second.taskId)
    await assert.rejects(dispatch.drain('unknown'), { code: 'not_found' })
  })

  test(`${engine}: tasks that a drained node has not finished by the deadline move to other nodes`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const leaving = new FakeNode(dispatch, { nodeId: 'leaving' })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => leaving.tasks.length === 1)
    leaving.accept(leaving.tasks[0]!)
    const staying = new FakeNode(dispatch, { nodeId: 'staying', onTask: obliging })
    await dispatch.drain('leaving', { deadlineMs: 50 })
    assert.equal((await history(dispatch, taskId)).at(-1)?.status, 'completed')
    assert.equal((await dispatch.task(taskId))?.nodeId, 'staying')
    assert.equal(staying.tasks[0]!.attempt, 2)
    assert.equal(leaving.heard('task.cancel', taskId), 1)
  })

  test(`${engine}: a cordoned service gets no new tasks while the node's other services do`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const node = new FakeNode(dispatch, { services: { nmt: 1, asr: 1 }, onTask: obliging })
    await until('it is ready', () => node.heard('welcome') === 1)
    await dispatch.cordon('n1', { service: 'nmt' })
    const waits = await dispatch.submit({ service: 'nmt' })
    const runs = await dispatch.submit({ service: 'asr' })
    assert.equal((await history(dispatch, runs.taskId)).at(-1)?.status, 'completed')
    assert.equal((await dispatch.task(waits.taskId))?.status, 'waiting')
    await dispatch.uncordon('n1', { service: 'nmt' })
    assert.equal((await history(dispatch, waits.taskId)).at(-1)?.status, 'completed')
  })

  test(`${engine}: a second instance with the same id takes over, and gets the task of the first`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    const old = new FakeNode(dispatch, { instanceId: 'one' })
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => old.tasks.length === 1)
    const young = new FakeNode(dispatch, { instanceId: 'two' })
    await until('the first is sent away', () => old.closedWith === 4409)
    assert.ok(old.frames.some((frame) => frame.type === 'error' && frame.code === 'superseded'))
    await until('it is out again', () => young.tasks.length === 1)
    assert.equal(young.tasks[0]!.attempt, 2)
    // Messages of the first instance no longer count, and it may not return.
    old.session.receive({ type: 'task.result', taskId, attempt: 1, output: 'old' })
    const back = new FakeNode(dispatch, { instanceId: 'one' })
    await until('it is sent away', () => back.closedWith === 4409)
    young.finish(young.tasks[0]!, 'young')
    await until('it is done', () => dispatch.counts().completed === 1)
    assert.equal((await dispatch.task(taskId))?.output, 'young')
  })

  test(`${engine}: explain shows which requirement fails on how many nodes, and what would wake the task`, async () => {
    await using store = await openStore(engine)
    await using stage = startDispatch(store.backend)
    const { dispatch } = stage
    new FakeNode(dispatch, { nodeId: 'zh', tags: { language: ['zh'] } })
    new FakeNode(dispatch, { nodeId: 'de', tags: { language: ['de'] } })
    await until('both are seen', () => dispatch.nodes().length === 2)
    const requires = [{ service: 'nmt', where: { language: 'fr' } }]
    const { taskId } = await dispatch.submit({ service: 'nmt', requires })
    await until('it waits', () => dispatch.counts().waiting === 1)
    const why = await dispatch.explain(taskId)
    assert.equal(why.nodeCount, 2)
    assert.equal(why.readyCount, 0)
    assert.ok(
      why.requirements.some(({ requirement, failingCount }) => /fr/.test(requirement) && failingCount === 2),
    )
    assert.equal(why.nearest.length, 2)
    assert.ok(why.wakes.length > 0)
    const french = new FakeNode(dispatch, { nodeId: 'fr', tags: { language: ['fr'] }, onTask: obliging })
    assert.equal((await history(dispatch, taskId)).at(-1)?.status, 'completed')
    assert.equal(french.tasks.length, 1)
    await assert.rejects(dispatch.explain('nothing'), { code: 'not_found' })
  })
}

test('a task may ask for the nodes of a named pool', async () => {
  await using store = await openStore('memory')
  await using stage = startDispatch(store.backend)
  const { dispatch } = stage
  const small = new FakeNode(dispatch, { nodeId: 'small', labels: { cores: 2 }, onTask: obliging })
  const large = new FakeNode(dispatch, { nodeId: 'large', labels: { cores: 64 }, onTask: obliging })
  await dispatch.definePool({ name: 'large', requires: [{ label: 'cores', gte: 32 }] })
  await until('it has a node', () =>
    dispatch.pools().some(({ name, nodeCount }) => name === 'large' && nodeCount === 1),
  )
  for (let count = 0; count < 4; count += 1) {
    const { taskId } = await dispatch.submit({ service: 'nmt', requires: [{ label: 'pool', in: ['large'] }] })
    await history(dispatch, taskId)
  }
  assert.deepEqual([small.tasks.length, large.tasks.length], [0, 4])
  await assert.rejects(dispatch.definePool({ name: 'x', requires: [{ labl: 'a' } as never] }), {
    code: 'invalid_argument',
  })
  assert.equal(await dispatch.removePool('large'), true)
  assert.equal(await dispatch.removePool('large'), false)
})

test('a watcher gets every step, and the progress in between', async () => {
  await using store = await openStore('memory')
  await using stage = startDispatch(store.backend)
  const { dispatch } = stage
  const { taskId } = await dispatch.submit({ service: 'nmt' })
  await until('it waits', () => dispatch.counts().waiting === 1)
  const reported: string[] = []
  for await (const event of dispatch.watch(taskId)) {
    reported.push(event.status === 'progress' ? `${event.status} ${event.percent}` : event.status)
    if (event.status !== 'waiting') continue
    new FakeNode(dispatch, {
      async onTask(task, self) {
        self.accept(task)
        await until('it is told that it runs', () => reported.includes('running'))
        self.say({ type: 'task.progress', taskId, attempt: 1, percent: 50, note: null })
        await until('it gets progress', () => reported.includes('progress 50'))
        self.finish(task)
      },
    })
  }
  assert.deepEqual(reported, ['waiting', 'assigned', 'running', 'progress 50', 'completed'])
  await assert.rejects(history(dispatch, 'nothing'), { code: 'not_found' })
})

test('a silent node is suspected, then declared dead; a node that only answers pings is not', async () => {
  await inGrowingLeases(200, async (heartbeatMs) => {
    await using store = await openStore('memory')
    await using stage = startDispatch(store.backend, { heartbeatMs })
    const { dispatch, events } = stage
    const silent = new FakeNode(dispatch, { nodeId: 'silent' })
    const pinged = new FakeNode(dispatch, { nodeId: 'pinged', services: { asr: 1 } })
    const pongs = setInterval(() => pinged.session.alive(), heartbeatMs / 4)
    const { taskId } = await dispatch.submit({ service: 'nmt' })
    await until('it is out', () => silent.tasks.length === 1)
    await until(
      'it is suspected',
      () => dispatch.node('silent')?.status === 'suspect',
      10_000 + 10 * heartbeatMs,
    )
    await until('it is given up', () => dispatch.node('silent')?.status === 'gone', 10_000 + 10 * heartbeatMs)
    clearInterval(pongs)
    assert.equal(silent.closedWith, 4408)
    assert.equal(dispatch.node('pinged')?.status, 'ready')
    assert.ok(!events.some((event) => event.name === 'node.suspect' && event.nodeId === 'pinged'))
    const other = new FakeNode(dispatch, { nodeId: 'other', onTask: obliging })
    assert.equal((await history(dispatch, taskId)).at(-1)?.status, 'completed')
    assert.equal(other.tasks.length, 1)
  })
}, 60_000)
