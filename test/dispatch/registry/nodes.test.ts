import assert from 'node:assert/strict'
import { test } from 'vitest'
import { all, assigned, none, only, Stage } from './fixtures.ts'

test("a second instance with the same id takes over: the first one's tasks move and its messages are refused", () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  const effects = stage.hello('n', { asr: 1 }, {}, { instanceId: 'n-2' })
  assert.equal(only(effects, 'superseded').epoch, 1)
  assert.deepEqual(
    { ...only(effects, 'welcome') },
    { kind: 'welcome', nodeId: 'n', epoch: 2, resumed: false },
  )
  assert.equal(only(effects, 'requeue').code, 'superseded')
  assert.equal(stage.used('n'), 0)
  // The old instance speaks on.
  assert.equal(only(stage.beat('n'), 'superseded').epoch, 1)
  const late = stage.result('n', 't', 1, 1)
  none(late, 'settled')
  // The task is handed back: what became of it is looked up, and the answer is stale.
  only(late, 'unknownTask')
  // And it may not come back by saying hello.
  const again = stage.hello('n', { asr: 1 }, {}, { instanceId: 'n-1' })
  assert.equal(only(again, 'superseded').instanceId, 'n-1')
  none(again, 'welcome')
})

test('the same instance resumes after a reconnect with its epoch and tasks; tasks it forgot move', () => {
  const stage = new Stage()
  stage.node('n', { asr: 3 })
  stage.submit('kept')
  stage.submit('lost')
  stage.do({ kind: 'nodeSuspect', nodeId: 'n', epoch: 1, reason: 'closed' })
  const effects = stage.hello('n', { asr: 3 }, {}, { running: ['kept', 'strange'] })
  assert.deepEqual({ ...only(effects, 'welcome') }, { kind: 'welcome', nodeId: 'n', epoch: 1, resumed: true })
  assert.deepEqual([only(effects, 'requeue').taskId, only(effects, 'requeue').code], ['lost', 'forgotten'])
  assert.equal(only(effects, 'unknownTask').taskId, 'strange')
  assert.equal(only(stage.result('n', 'kept'), 'settled').end, 'completed')
})

test('a suspect node gets no new work and keeps its tasks; any message of it makes it healthy', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('a')
  stage.do({ kind: 'nodeSuspect', nodeId: 'n', epoch: 1, reason: 'silent' })
  none(stage.submit('b'), 'assign')
  assert.deepEqual(assigned(stage.do({ kind: 'accept', nodeId: 'n', epoch: 1, taskId: 'a', attempt: 1 })), [
    'b',
  ])
})

test('a dead node loses its tasks to the next attempt, and its late heartbeat does not revive it', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  const requeue = only(stage.do({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' }), 'requeue')
  assert.deepEqual([requeue.code, requeue.afterMs, requeue.attempt], ['node_lost', 0, 1])
  only(stage.beat('n', { running: ['t'], countedSeq: 1 }), 'unknownNode')
  assert.equal(stage.registry.node('n')!.status, 'gone')
  // It comes back as itself: a new epoch, and nothing of the old one.
  const effects = stage.hello('n', { asr: 1 }, {}, { running: ['t'] })
  assert.deepEqual([only(effects, 'welcome').epoch, only(effects, 'welcome').resumed], [2, false])
  only(effects, 'unknownTask')
  // It still works on the attempt that was taken from it, and its slot is taken until it says that it stopped.
  none(stage.submit('t', { attempt: 2 }), 'assign')
  const stopped = stage.result('n', 't', 1, 2)
  only(stopped, 'stale')
  assert.deepEqual(assigned(stopped), ['t'])
  assert.equal(only(stage.result('n', 't', 2, 2), 'settled').attempt, 2)
})

test('the registry ends the tasks of a dead node in slices, all of them', () => {
  const stage = new Stage({ sliceSteps: 16 })
  stage.node('n', { asr: 1_000 })
  for (let i = 0; i < 1_000; i += 1) stage.submit(`t${i}`)
  const first = stage.registry.apply({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'gone' }, stage.now)
  assert.equal(all(first, 'requeue').length, 16)
  let count = 16
  for (let more = first; more.some(({ kind }) => kind === 'moreWork'); ) {
    more = stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
    assert.ok(all(more, 'requeue').length <= 16)
    count += all(more, 'requeue').length
  }
  assert.equal(count, 1_000)
})

test('the registry forgets a dead node completely after a while', () => {
  const stage = new Stage({ keepMs: 1_000 })
  stage.node('n', { asr: 1 })
  stage.do({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' })
  only(stage.after(1_001), 'nodeForgotten')
  assert.equal(stage.registry.counts().nodes, 0)
})

test('a heartbeat measured before an assign does not take back that assign', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('early')
  stage.submit('late')
  // Made when only the first had arrived, delivered after the second was sent.
  none(stage.beat('n', { running: ['early'], countedSeq: 1 }), 'requeue')
  assert.equal(stage.used('n'), 2)
  // Made when both had arrived: the node lost one.
  assert.equal(only(stage.beat('n', { running: ['early'], countedSeq: 2 }), 'requeue').taskId, 'late')
  assert.equal(stage.used('n'), 1)
})

test('a drained node gets no new work, finishes its tasks, and is then reported as drained', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('a')
  only(stage.do({ kind: 'drain', nodeId: 'n', on: true, deadlineAt: null }), 'drainFrame')
  none(stage.submit('b'), 'assign')
  const effects = stage.result('n', 'a')
  only(effects, 'drained')
  none(effects, 'assign')
  assert.deepEqual(assigned(stage.do({ kind: 'drain', nodeId: 'n', on: false, deadlineAt: null })), ['b'])
})

test('at the deadline of a drain running tasks move to other nodes, unless they have no attempt left', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('again')
  stage.submit('last', { maxAttempts: 1 })
  stage.do({ kind: 'drain', nodeId: 'n', on: true, deadlineAt: stage.now + 500 })
  const effects = stage.after(500)
  assert.deepEqual([only(effects, 'requeue').taskId, only(effects, 'cancelFrame').taskId], ['again', 'again'])
  assert.equal(stage.registry.task('last')!.status, 'assigned')
})

test('a cordon closes a node, or one service of it, and outlasts the node', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1, tts: 1 })
  stage.do({ kind: 'cordon', nodeId: 'n', service: 'asr', on: true })
  none(stage.submit('a'), 'assign')
  assert.deepEqual(assigned(stage.submit('b', { service: 'tts' })), ['b'])
  stage.do({ kind: 'nodeBye', nodeId: 'n', epoch: 1 })
  none(stage.hello('n', { asr: 1, tts: 1 }, {}, { instanceId: 'new' }), 'assign')
  assert.deepEqual(assigned(stage.do({ kind: 'cordon', nodeId: 'n', service: 'asr', on: false })), ['a'])
  stage.do({ kind: 'cordon', nodeId: 'n', service: null, on: true })
  none(stage.submit('c', { service: 'tts' }), 'assign')
})

test('a node that reports a high load gets no work until it reports less', () => {
  const stage = new Stage({ veto: { cpu: 0.9, gpu: 2, memory: 2 } })
  stage.node('n', { asr: 1 })
  stage.beat('n', { cpu: 0.95 })
  none(stage.submit('t'), 'assign')
  assert.deepEqual(assigned(stage.beat('n', { cpu: 0.5 })), ['t'])
})

test('services and labels change without a reconnect, and waiting tasks that match are served', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('a')
  stage.submit('b', { service: 'tts', requires: [{ label: 'zone', in: ['north'] }] })
  const services = [
    { name: 'asr', slots: 1, tags: {} },
    { name: 'tts', slots: 1, tags: {} },
  ]
  none(stage.do({ kind: 'nodeUpdate', nodeId: 'n', epoch: 1, services, labels: null }), 'assign')
  const effects = stage.do({
    kind: 'nodeUpdate',
    nodeId: 'n',
    epoch: 1,
    services: null,
    labels: { zone: 'north' },
  })
  assert.deepEqual(assigned(effects), ['b'])
  assert.equal(stage.used('n', 'asr'), 1, 'what it ran is still counted')
})

test('unusual offers do no harm: no slots, one name twice, an empty offer', () => {
  const stage = new Stage()
  stage.node('empty', [])
  stage.node('zero', { asr: 0 })
  none(stage.submit('a'), 'assign')
  const twice = [
    { name: 'asr', slots: 1, tags: {} },
    { name: 'asr', slots: 50, tags: {} },
  ]
  assert.deepEqual(assigned(stage.hello('twice', twice)), ['a'])
  none(stage.submit('b'), 'assign')
})

test('a task whose node moved to another server spends no attempt, up to a limit', () => {
  const bye = { kind: 'nodeBye', nodeId: 'n', epoch: 1, elsewhere: 'moved' } as const
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('t', { maxAttempts: 1, moveCount: 19 })
  stage.submit('restless', { maxAttempts: 1, moveCount: 20 })
  const effects = stage.do(bye)
  const { taskId, code, isFree, error } = only(effects, 'requeue')
  assert.deepEqual([taskId, code, isFree], ['t', 'moved', true])
  assert.equal(error.message, 'Node "n" connected to another server.')
  assert.deepEqual(
    [only(effects, 'settled').taskId, only(effects, 'settled').error?.code],
    ['restless', 'poison'],
  )
})
