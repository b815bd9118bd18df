import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Effect } from '../../../src/dispatch/index.ts'
import { all, assigned, none, only, Stage } from './fixtures.ts'

function found(
  stage: Stage,
  taskId: string,
  uses: Readonly<Record<string, number>> | null,
): readonly Effect[] {
  return stage.do({ kind: 'orphan', nodeId: 'n', epoch: 1, taskId, attempt: 0, uses })
}

function arrive(stage: Stage, slots: number, running: readonly string[]): readonly Effect[] {
  return stage.hello('n', { asr: slots }, {}, { running })
}

test('a node with unknown tasks gets no work until their lookup, then only up to its free slots', () => {
  const stage = new Stage()
  const effects = arrive(stage, 3, ['strange', 'other'])
  assert.deepEqual(
    all(effects, 'unknownTask').map(({ taskId, attempt, said }) => [taskId, attempt, said]),
    [
      ['strange', 0, 'running'],
      ['other', 0, 'running'],
    ],
  )
  for (const taskId of ['a', 'b']) none(stage.submit(taskId), 'assign')
  none(found(stage, 'strange', { asr: 1 }), 'assign')
  assert.deepEqual(assigned(found(stage, 'other', { asr: 1 })), ['a'])
  assert.equal(stage.used('n'), 3)
  assert.deepEqual(stage.registry.node('n')!.taskIds, ['strange', 'other', 'a'])
})

test('a task with only its result to settle takes no slot, however long it is listed', () => {
  const stage = new Stage()
  arrive(stage, 1, ['done'])
  stage.submit('a')
  assert.deepEqual(assigned(found(stage, 'done', null)), ['a'])
  // The task is looked up again, to be reported again; the node stays open.
  only(stage.beat('n', { running: ['done', 'a'], countedSeq: 1 }), 'unknownTask')
  assert.equal(stage.used('n'), 1)
  stage.submit('b')
  assert.deepEqual(assigned(stage.result('n', 'a')), ['b'])
})

test('an orphan task’s slots are free when the node no longer lists it', () => {
  const stage = new Stage()
  arrive(stage, 1, ['strange'])
  found(stage, 'strange', { asr: 1 })
  stage.submit('a')
  only(stage.beat('n', { running: ['strange'], countedSeq: 0 }), 'unknownTask')
  assert.deepEqual(assigned(stage.beat('n', { running: [], countedSeq: 0 })), ['a'])
  // A heartbeat from before the assign takes nothing back.
  none(stage.beat('n', { running: [], countedSeq: 0 }), 'requeue')
  assert.equal(stage.used('n'), 1)
})

for (const kind of ['result', 'fail', 'reject'] as const) {
  test(`a ${kind} message of an orphan task frees its slots and is answered`, () => {
    const stage = new Stage()
    arrive(stage, 1, ['strange'])
    found(stage, 'strange', { asr: 1 })
    stage.submit('a')
    const word = { nodeId: 'n', epoch: 1, taskId: 'strange', attempt: 3 }
    const error = { code: 'stopped', message: 'It stopped.' }
    const effects = stage.do({
      ...{ kind, ...word, output: null, error, retryable: true, reason: 'stopped', retryAfterMs: null },
    })
    assert.equal(only(effects, 'unknownTask').attempt, 3)
    assert.deepEqual(assigned(effects), ['a'])
    // Its next list may have been made before that was settled: the slot is not taken again.
    stage.beat('n', { running: ['strange', 'a'], countedSeq: 1 })
    assert.equal(stage.used('n'), 1)
  })
}

test('an orphan task that does not stop holds its slots as long as a cancelled task would', () => {
  const stage = new Stage({ cancelGraceMs: 1_000 })
  arrive(stage, 1, ['strange'])
  found(stage, 'strange', { asr: 1 })
  stage.submit('a')
  none(stage.after(999), 'assign')
  const effects = stage.after(1)
  assert.deepEqual(assigned(effects), ['a'])
  assert.ok(all(effects, 'event').some(({ event }) => event.name === 'slot.forced'))
  stage.beat('n', { running: ['strange', 'a'], countedSeq: 1 })
  assert.equal(stage.used('n'), 1)
})

test('a node that reconnects gives its orphan tasks their time again', () => {
  const stage = new Stage({ cancelGraceMs: 1_000 })
  arrive(stage, 1, ['strange'])
  found(stage, 'strange', { asr: 1 })
  stage.after(900)
  none(arrive(stage, 1, ['strange']), 'cancelFrame')
  stage.submit('a')
  none(stage.after(900), 'assign')
  assert.deepEqual(assigned(stage.after(100)), ['a'])
})

test('a lookup that never answers does not close a node for ever, and a late answer still counts', () => {
  const stage = new Stage({ cancelGraceMs: 1_000 })
  arrive(stage, 2, ['strange'])
  stage.submit('a')
  none(stage.after(999), 'assign')
  const effects = stage.after(1)
  assert.deepEqual(assigned(effects), ['a'])
  const unanswered = all(effects, 'event').find(({ event }) => event.name === 'node.unanswered')
  assert.deepEqual(unanswered?.event, { name: 'node.unanswered', nodeId: 'n', epoch: 1, taskCount: 1 })
  found(stage, 'strange', { asr: 1 })
  none(stage.submit('b'), 'assign')
  assert.equal(stage.used('n'), 2)
})

test('a lookup answer for an earlier state of the node changes nothing', () => {
  const stage = new Stage()
  arrive(stage, 1, ['strange'])
  stage.beat('n', { running: [], countedSeq: 0 })
  found(stage, 'strange', { asr: 1 })
  assert.equal(stage.used('n'), 0)
  stage.do({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' })
  assert.deepEqual(found(stage, 'strange', { asr: 1 }), [])
  assert.deepEqual(assigned(stage.submit('a')), [])
})

test('a task of this server that another node still runs takes that node’s slot without a lookup', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  stage.do({ kind: 'nodeGone', nodeId: 'n', epoch: 1, reason: 'silent' })
  stage.node('m', { asr: 1 })
  assert.equal(only(stage.submit('t', { attempt: 2 }), 'assign').nodeId, 'm')
  const effects = arrive(stage, 1, ['t'])
  assert.equal(only(effects, 'stale').attempt, 0)
  none(effects, 'unknownTask')
  assert.equal(stage.used('n'), 1)
  none(stage.submit('a'), 'assign')
  assert.deepEqual(assigned(stage.beat('n', { running: [], countedSeq: 0, epoch: 2 })), ['a'])
})

test('a task that arrives at this server during its lookup is an orphan task once, whatever the answer', () => {
  const stage = new Stage({ cancelGraceMs: 30_000 })
  arrive(stage, 2, ['x'])
  stage.submit('x', { attempt: 2, requires: [{ label: 'zone' }] })
  stage.submit('a')
  // Its slot is known from here on, so the node is open for the rest.
  assert.deepEqual(assigned(stage.beat('n', { running: ['x'], countedSeq: 0 })), ['a'])
  stage.after(1_000)
  found(stage, 'x', { asr: 1 })
  assert.equal(stage.used('n'), 2)
  // The node stops, and gets the task again elsewhere: nothing is left here that would end it once more.
  stage.do({
    kind: 'reject',
    nodeId: 'n',
    epoch: 1,
    taskId: 'x',
    attempt: 1,
    reason: 'stopped',
    retryAfterMs: null,
  })
  assert.equal(stage.used('n'), 1)
  const later = stage.after(40_000)
  assert.deepEqual(
    all(later, 'event').filter(({ event }) => event.name === 'slot.forced' && event.taskId === 'x'),
    [],
  )
})

test('a result in flight does not close the node: the task is known to have stopped', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.submit('t')
  stage.result('n', 't')
  // The heartbeat was made before the node heard that its result is settled.
  only(stage.beat('n', { running: ['t'], countedSeq: 1 }), 'unknownTask')
  assert.deepEqual(assigned(stage.submit('a')), ['a'])
})

test('a task that a node had ended counts again if the node lists it after a reconnect', () => {
  const stage = new Stage()
  arrive(stage, 1, ['strange'])
  stage.do({ kind: 'result', nodeId: 'n', epoch: 1, taskId: 'strange', attempt: 1, output: null })
  none(stage.beat('n', { running: ['strange'], countedSeq: 0 }), 'assign')
  only(arrive(stage, 1, ['strange']), 'unknownTask')
  none(stage.submit('a'), 'assign')
  none(found(stage, 'strange', { asr: 1 }), 'assign')
  assert.equal(stage.used('n'), 1)
  // Where it had only its result to be settled, it says that again.
  const again = {
    kind: 'result',
    nodeId: 'n',
    epoch: 1,
    taskId: 'strange',
    attempt: 1,
    output: null,
  } as const
  assert.deepEqual(assigned(stage.do(again)), ['a'])
})

test('a draining node is drained once its orphan tasks are gone too', () => {
  const stage = new Stage()
  arrive(stage, 2, ['strange', 'done'])
  none(stage.do({ kind: 'drain', nodeId: 'n', on: true, deadlineAt: null }), 'drained')
  found(stage, 'strange', { asr: 1 })
  none(found(stage, 'done', null), 'drained')
  only(stage.beat('n', { running: [], countedSeq: 0 }), 'drained')
})

test('a node reserved for a task gets no task while its running tasks are unknown', () => {
  const stage = new Stage({ holdAfterMs: 100, acceptMs: 0 })
  stage.node('n', { asr: 2 })
  stage.submit('small')
  stage.submit('big', { kind: 'asr#2', uses: { asr: 2 } })
  stage.now += 200
  stage.submit('more')
  stage.beat('n', { cpu: 0, running: ['small', 'more'], countedSeq: 2 })
  stage.result('n', 'more')
  assert.equal(stage.registry.node('n')!.heldFor, 'big')
  stage.beat('n', { running: ['small', 'strange'], countedSeq: 2 })
  none(stage.result('n', 'small'), 'assign')
  none(found(stage, 'strange', { asr: 1 }), 'assign')
  assert.deepEqual(assigned(stage.beat('n', { running: [], countedSeq: 2 })), ['big'])
})

test('a long list of tasks is looked up in steps; the node is closed until all are known', () => {
  const stage = new Stage()
  const running = Array.from({ length: 100 }, (_, i) => `x${i}`)
  const asked = all(arrive(stage, 200, running), 'unknownTask').map(({ taskId }) => taskId)
  assert.equal(asked.length, 64)
  stage.submit('a')
  for (let at = 0; at < 100; at += 1) {
    none(stage.last, 'assign')
    const effects = found(stage, asked[at]!, { asr: 1 })
    asked.push(...all(effects, 'unknownTask').map(({ taskId }) => taskId))
  }
  assert.deepEqual(asked, running)
  assert.deepEqual(assigned(stage.last), ['a'])
  assert.equal(stage.used('n'), 101)
})
