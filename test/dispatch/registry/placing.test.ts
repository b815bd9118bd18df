import assert from 'node:assert/strict'
import { test } from 'vitest'
import { all, assigned, none, only, Stage } from './fixtures.ts'

test('tasks spread over equal nodes, because an assign counts before the node reports it', () => {
  const stage = new Stage()
  for (const nodeId of ['a', 'b', 'c', 'd']) stage.node(nodeId, { asr: 100 })
  for (let i = 0; i < 80; i += 1) stage.submit(`t${i}`)
  for (const nodeId of ['a', 'b', 'c', 'd']) {
    assert.ok(Math.abs(stage.used(nodeId) - 20) <= 4, `${nodeId} has ${stage.used(nodeId)}`)
  }
})

test('a task goes to the less loaded node', () => {
  const stage = new Stage()
  stage.node('hot', { asr: 10 })
  stage.node('cool', { asr: 10 })
  stage.beat('hot', { cpu: 0.9 })
  stage.beat('cool', { cpu: 0.2 })
  for (let i = 0; i < 3; i += 1) assert.equal(only(stage.submit(`t${i}`), 'assign').nodeId, 'cool')
})

test('a task that a node includes in its load is not counted twice', () => {
  const stage = new Stage({ weights: { used: 0, cpu: 1, gpu: 0, memory: 0 } })
  stage.node('n', { asr: 10 })
  stage.node('m', { asr: 10 })
  stage.beat('m', { cpu: 0.45 })
  stage.beat('n', { cpu: 0 })
  // Four sent, and the load of all four reported: 0.4 is less than 0.45, where 0.8 would be more.
  for (let i = 0; i < 4; i += 1) assert.equal(only(stage.submit(`t${i}`), 'assign').nodeId, 'n')
  stage.beat('n', { cpu: 0.4, countedSeq: 4 })
  assert.equal(only(stage.submit('next'), 'assign').nodeId, 'n')
  // Sent after that report: 0.4 and one tenth are more than 0.45.
  assert.equal(only(stage.submit('other'), 'assign').nodeId, 'm')
})

test('several services are reserved together on one node, or not at all', () => {
  const stage = new Stage()
  const uses = { asr: 1, nmt: 1, tts: 1 }
  stage.node('no-tts', { asr: 5, nmt: 5 })
  stage.node('n', { asr: 2, nmt: 1, tts: 2 })
  assert.equal(only(stage.submit('a', { service: 'nmt', uses }), 'assign').nodeId, 'n')
  assert.deepEqual(
    ['asr', 'nmt', 'tts'].map((service) => stage.used('n', service)),
    [1, 1, 1],
  )
  // asr and tts are free, nmt is not: nothing is taken.
  none(stage.submit('b', { service: 'nmt', uses }), 'assign')
  assert.deepEqual(
    ['asr', 'nmt', 'tts'].map((service) => stage.used('n', service)),
    [1, 1, 1],
  )
  assert.deepEqual(assigned(stage.result('n', 'a')), ['b'])
})

test('a task may take several slots of a service', () => {
  const stage = new Stage()
  stage.node('n', { asr: 3 })
  stage.submit('a', { uses: { asr: 2 } })
  none(stage.submit('b', { uses: { asr: 2 } }), 'assign')
  assert.deepEqual(assigned(stage.submit('c')), ['c'])
  assert.equal(stage.used('n'), 3)
})

test('terms select nodes by tags, by labels as text and as number, with any-of and not', () => {
  const stage = new Stage()
  const asr = (languages: readonly string[]) => [{ name: 'asr', slots: 9, tags: { language: languages } }]
  stage.node('zh-small', asr(['zh']), { zone: 'north', memory: 8 })
  stage.node('en-large', asr(['en', 'de']), { zone: 'south', memory: 64 })
  const chosen = (taskId: string, requires: Parameters<Stage['spec']>[1]) => {
    const effect = all(stage.submit(taskId, requires), 'assign')[0]
    return effect?.nodeId ?? null
  }
  assert.equal(chosen('a', { requires: [{ service: 'asr', where: { language: 'zh' } }] }), 'zh-small')
  assert.equal(chosen('b', { requires: [{ label: 'zone', in: ['south', 'east'] }] }), 'en-large')
  assert.equal(chosen('c', { requires: [{ label: 'memory', gte: 32 }] }), 'en-large')
  assert.equal(chosen('d', { requires: [{ label: 'memory', lte: 32 }] }), 'zh-small')
  assert.equal(chosen('e', { requires: [{ not: { label: 'zone', in: ['south'] } }] }), 'zh-small')
  assert.equal(
    chosen('f', { requires: [{ any: [{ service: 'tts' }, { label: 'memory', gte: 64, lte: 64 }] }] }),
    'en-large',
  )
  assert.equal(chosen('g', { requires: [{ service: 'asr', where: { language: 'fr' } }] }), null)
  assert.equal(chosen('h', { requires: [{ label: 'gpu' }] }), null)
  assert.equal(chosen('i', { requires: [{ label: 'memory', gte: 9, lte: 63 }] }), null)
})

test('tasks of a session stay on one node, and leave it when it is much more loaded than another', () => {
  const stage = new Stage()
  for (const nodeId of ['a', 'b', 'c']) stage.node(nodeId, { asr: 50 })
  const home = only(stage.submit('t0', { session: 's' }), 'assign').nodeId
  for (let i = 1; i < 5; i += 1) {
    assert.equal(only(stage.submit(`t${i}`, { session: 's' }), 'assign').nodeId, home)
  }
  stage.beat(home, { cpu: 1, countedSeq: 5 })
  const next = only(stage.submit('t5', { session: 's' }), 'assign').nodeId
  assert.notEqual(next, home)
  assert.equal(only(stage.submit('t6', { session: 's' }), 'assign').nodeId, next)
})

test('the registry forgets a session after a while', () => {
  const stage = new Stage({ sessionMs: 1_000 })
  stage.node('a', { asr: 5 })
  stage.submit('t', { session: 's' })
  stage.now += 1_001
  stage.submit('u', { session: 'other' })
  assert.equal(stage.registry.counts().sessions, 1)
})

test('a task goes to its preferred node while that is not much more loaded', () => {
  const stage = new Stage()
  stage.node('near', { asr: 10 }, { zone: 'north' })
  stage.node('far', { asr: 10 }, { zone: 'south' })
  const prefers = [{ label: 'zone', in: ['north'] }]
  stage.beat('near', { cpu: 0.2 })
  assert.equal(only(stage.submit('a', { prefers }), 'assign').nodeId, 'near')
  stage.beat('near', { cpu: 1 })
  assert.equal(only(stage.submit('b', { prefers }), 'assign').nodeId, 'far')
})
