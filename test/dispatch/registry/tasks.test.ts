import assert from 'node:assert/strict'
import { test } from 'vitest'
import { assigned, none, only, Stage } from './fixtures.ts'

test('a task ends once: the first result counts, repetitions and later messages do not', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  const settled = only(stage.result('n', 't'), 'settled')
  assert.deepEqual(
    [settled.end, settled.output, settled.nodeId, settled.attempt],
    ['completed', 't done', 'n', 1],
  )
  for (const effects of [stage.result('n', 't'), stage.do({ kind: 'cancel', taskId: 't', reason: null })]) {
    none(effects, 'settled')
  }
  assert.equal(only(stage.result('n', 't'), 'unknownTask').said, 'result')
  assert.equal(stage.registry.counts().tasks, 0)
})

test('the result of another node, or of another attempt, is answered stale', () => {
  const stage = new Stage()
  stage.node('a', { asr: 1 })
  stage.submit('t')
  stage.node('b', { asr: 1 })
  for (const effects of [stage.result('b', 't'), stage.result('a', 't', 2), stage.result('a', 't', 0)]) {
    only(effects, 'stale')
    none(effects, 'settled')
  }
  only(stage.result('a', 't'), 'settled')
})

test('a retryable failure leads to an attempt on another node, until none is left: poison', () => {
  const stage = new Stage({ retryInMs: 100 })
  stage.node('a', { asr: 5 })
  stage.node('b', { asr: 5 })
  const error = { code: 'oom', message: 'No memory.' }
  const nodes: string[] = []
  let effects = stage.submit('t', { maxAttempts: 3 })
  for (const attempt of [1, 2]) {
    const { nodeId } = only(effects, 'assign')
    nodes.push(nodeId)
    effects = stage.do({ kind: 'fail', nodeId, epoch: 1, taskId: 't', attempt, error, retryable: true })
    assert.deepEqual(
      { ...only(effects, 'requeue'), kind: undefined },
      {
        kind: undefined,
        taskId: 't',
        attempt,
        nodeId,
        code: 'failed',
        error,
        afterMs: 100 * attempt,
      },
    )
    assert.equal(stage.registry.task('t'), undefined, 'its job is handed back')
    effects = stage.submit('t', { attempt: attempt + 1, maxAttempts: 3, shunned: nodeId })
  }
  assert.notEqual(nodes[0], nodes[1])
  const { nodeId } = only(effects, 'assign')
  const end = only(
    stage.do({ kind: 'fail', nodeId, epoch: 1, taskId: 't', attempt: 3, error, retryable: true }),
    'settled',
  )
  assert.deepEqual([end.end, end.error!.code], ['failed', 'poison'])
})

test('a permanent failure, or the loss of a task that may not be retried, ends the task', () => {
  const stage = new Stage()
  stage.node('n', { asr: 3 })
  stage.submit('a')
  const error = { code: 'bad_audio', message: 'It is noise.' }
  const fail = { kind: 'fail', nodeId: 'n', epoch: 1, attempt: 1, error } as const
  assert.deepEqual(only(stage.do({ ...fail, taskId: 'a', retryable: false }), 'settled').error, error)
  stage.submit('b', { retryable: false })
  assert.deepEqual(only(stage.do({ ...fail, taskId: 'b', retryable: true }), 'settled').error, error)
  stage.submit('c', { retryable: false })
  const lost = stage.do({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' })
  none(lost, 'requeue')
  assert.equal(only(lost, 'settled').error!.code, 'node_lost')
})

test('a cancelled task ends at once; its slot is free when the node has stopped', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('a')
  stage.submit('b')
  const effects = stage.do({ kind: 'cancel', taskId: 'a', reason: 'not needed' })
  assert.deepEqual(
    [only(effects, 'settled').end, only(effects, 'settled').error!.message],
    ['cancelled', 'not needed'],
  )
  assert.equal(only(effects, 'cancelFrame').nodeId, 'n')
  none(effects, 'assign')
  const error = { code: 'cancelled', message: '' }
  const stopped = stage.do({
    kind: 'fail',
    nodeId: 'n',
    epoch: 1,
    taskId: 'a',
    attempt: 1,
    error,
    retryable: true,
  })
  assert.deepEqual(assigned(stopped), ['b'])
  none(stopped, 'settled')
})

test('a node that does not answer a cancel keeps the slot for the grace time only', () => {
  const stage = new Stage({ cancelGraceMs: 2_000, acceptMs: 0 })
  stage.node('n', { asr: 1 })
  stage.submit('a')
  stage.do({ kind: 'cancel', taskId: 'a', reason: null })
  stage.submit('b')
  none(stage.after(1_999), 'assign')
  assert.deepEqual(assigned(stage.after(1)), ['b'])
})

test('a task that is not accepted in time, or shows no progress, goes to its next attempt', () => {
  const stage = new Stage({ acceptMs: 100 })
  stage.node('n', { asr: 2 })
  stage.submit('a')
  const late = stage.after(100)
  assert.deepEqual([only(late, 'requeue').code, only(late, 'cancelFrame').taskId], ['accept_timeout', 'a'])
  stage.submit('b', { idleMs: 1_000 })
  stage.do({ kind: 'accept', nodeId: 'n', epoch: 1, taskId: 'b', attempt: 1 })
  none(stage.after(900), 'requeue')
  stage.do({ kind: 'progress', nodeId: 'n', epoch: 1, taskId: 'b', attempt: 1, percent: 50, note: 'half' })
  none(stage.after(900), 'requeue')
  assert.equal(only(stage.after(100), 'requeue').code, 'idle_timeout')
})

test('the deadline runs from submit to end, whether the task waits or runs', () => {
  const stage = new Stage({ acceptMs: 0 })
  stage.submit('waits', { deadlineAt: stage.now + 500 })
  const ended = only(stage.after(500), 'settled')
  assert.deepEqual(
    [ended.end, ended.error!.code, stage.registry.counts().waiting],
    ['failed', 'deadline_exceeded', 0],
  )
  stage.node('n', { asr: 1 })
  stage.submit('runs', { deadlineAt: stage.now + 500 })
  const effects = stage.after(500)
  assert.equal(only(effects, 'settled').error!.code, 'deadline_exceeded')
  assert.equal(only(effects, 'cancelFrame').taskId, 'runs')
  assert.equal(only(stage.submit('late', { deadlineAt: stage.now }), 'settled').end, 'failed')
})

test('a node may answer busy without spending an attempt: its service pauses, and other nodes are used', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2, tts: 1 })
  stage.submit('t')
  const reject = { kind: 'reject', nodeId: 'n', epoch: 1, taskId: 't', attempt: 1, reason: 'busy' } as const
  const effects = stage.do({ ...reject, retryAfterMs: 700 })
  none(effects, 'requeue')
  assert.equal(only(effects, 'taskChanged').status, 'waiting')
  assert.deepEqual(assigned(stage.submit('u', { service: 'tts' })), ['u'])
  none(stage.after(699), 'assign')
  const again = only(stage.after(1), 'assign')
  assert.deepEqual([again.taskId, again.attempt], ['t', 1])
})

test('a node that rejects a task spends an attempt of it, and gets other tasks as before', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  const reject = {
    kind: 'reject',
    nodeId: 'n',
    epoch: 1,
    taskId: 't',
    attempt: 1,
    reason: 'too long',
  } as const
  assert.equal(only(stage.do({ ...reject, retryAfterMs: null }), 'requeue').code, 'rejected')
  assert.deepEqual(assigned(stage.submit('u')), ['u'])
})

test('a higher attempt proves that the older claim is over: the node gets a stop request', () => {
  const stage = new Stage()
  stage.node('n', { asr: 2 })
  stage.submit('t')
  const effects = stage.submit('t', { attempt: 2 })
  assert.equal(only(effects, 'cancelFrame').attempt, 1)
  assert.equal(only(effects, 'assign').attempt, 2)
  assert.equal(stage.submit('t', { attempt: 1 }).length, 0)
  only(stage.result('n', 't', 1), 'stale')
  assert.equal(only(stage.result('n', 't', 2), 'settled').attempt, 2)
})

test('the registry forgets a task that left this server, without an end', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  const effects = stage.do({ kind: 'forget', taskId: 't' })
  none(effects, 'settled')
  only(effects, 'cancelFrame')
  assert.equal(stage.registry.counts().tasks, 0)
})

test('the registry forgets ended tasks, timers, requirements, sessions and tenants', () => {
  const stage = new Stage({ maxDemands: 20, maxSessions: 50, sessionMs: 10_000, publishMs: 1_000_000 })
  stage.node('n', { asr: 4 })
  // Some wait for ever with separate requirements, the oldest of all.
  for (let i = 0; i < 30; i += 1) stage.submit(`w${i}`, { service: 'tts', requires: [{ label: `rare${i}` }] })
  for (let i = 0; i < 3_000; i += 1) {
    const requires = [{ not: { label: 'kind', in: [`k${i}`] } }]
    const parts = { tenant: `tenant${i}`, session: `s${i}`, requires, deadlineAt: stage.now + 60_000 }
    assert.deepEqual(assigned(stage.submit(`t${i}`, parts)), [`t${i}`])
    stage.result('n', `t${i}`)
    stage.now += 1
  }
  const { tasks, timers, demands, sessions, tenants } = stage.registry.counts()
  assert.equal(tasks, 30)
  assert.ok(timers <= 2, `${timers} timers`)
  assert.ok(demands <= 60, `${demands} demands`)
  assert.ok(sessions <= 50, `${sessions} sessions`)
  assert.equal(tenants, 1)
})
