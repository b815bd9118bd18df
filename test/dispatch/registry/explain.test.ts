import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Explanation, explainSteps } from '../../../src/dispatch/index.ts'
import { only, Stage } from './fixtures.ts'

function explained(stage: Stage, taskId: string): Explanation {
  stage.after(100)
  const { spec } = stage.registry.task(taskId)!
  const source = { spec, nodes: stage.registry.nodes(), rules: stage.registry.rules, now: stage.now }
  const steps = explainSteps(source)
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

test('explain shows how many nodes fail which requirement, the nearest misses, and what would wake the task', () => {
  const stage = new Stage({ acceptMs: 0 })
  const asr = (slots: number, ...language: string[]) => [{ name: 'asr', slots, tags: { language } }]
  stage.node('full', asr(1, 'zh'), { memory: 64 })
  stage.submit('runs', { requires: [{ service: 'asr', where: { language: 'zh' } }] })
  stage.node('small', asr(4, 'zh'), { memory: 8 })
  stage.node('english', asr(4, 'en'), { memory: 8 })
  stage.node('tts', { tts: 1 })
  stage.submit('t', {
    requires: [
      { service: 'asr', where: { language: 'zh' } },
      { label: 'memory', gte: 32 },
    ],
  })
  const answer = explained(stage, 't')
  assert.deepEqual([answer.nodeCount, answer.suitableCount, answer.readyCount], [4, 1, 0])
  const failing = Object.fromEntries(answer.requirements.map((each) => [each.requirement, each.failingCount]))
  assert.equal(failing['service asr'], 1)
  assert.equal(failing['service asr with language zh'], 2)
  assert.equal(failing['label memory at least 32'], 3)
  assert.equal(failing['a free slot of asr'], 1)
  assert.deepEqual(answer.nearest[0], { nodeId: 'full', missing: ['a free slot of asr'] })
  assert.deepEqual(answer.nearest[1], { nodeId: 'small', missing: ['label memory at least 32'] })
  assert.deepEqual(answer.wakes, ['Node "full": a free slot of asr.'])
  // And so it is.
  assert.equal(only(stage.result('full', 'runs'), 'assign').taskId, 't')
})

test('explain names every reason why a node takes no work', () => {
  const stage = new Stage({ acceptMs: 0, veto: { cpu: 2, gpu: 2, memory: 0.9 } })
  for (const nodeId of ['drained', 'cordoned', 'suspect', 'hot', 'closed']) stage.node(nodeId, { asr: 1 })
  stage.do({ kind: 'drain', nodeId: 'drained', on: true, deadlineAt: null })
  stage.do({ kind: 'cordon', nodeId: 'cordoned', service: null, on: true })
  stage.do({ kind: 'cordon', nodeId: 'closed', service: 'asr', on: true })
  stage.do({ kind: 'nodeSuspect', nodeId: 'suspect', epoch: 1, reason: 'closed' })
  stage.beat('hot', { memory: 0.95 })
  stage.submit('t')
  const missing = Object.fromEntries(
    explained(stage, 't').nearest.map(({ nodeId, missing }) => [nodeId, missing]),
  )
  assert.deepEqual(missing, {
    drained: ['not draining'],
    cordoned: ['not cordoned'],
    suspect: ['connected'],
    hot: ['not overloaded'],
    closed: ['asr open for work'],
  })
})

test('without any node explain names the node that must connect, and changes nothing', () => {
  const stage = new Stage()
  stage.submit('t', { service: 'nmt', uses: { nmt: 1, tts: 1 } })
  const before = JSON.stringify(stage.registry.counts())
  assert.deepEqual(explained(stage, 't').wakes, ['A node that offers nmt, tts connects.'])
  assert.equal(JSON.stringify(stage.registry.counts()), before)
})

test('a long explanation pauses to let other work run', () => {
  const stage = new Stage()
  for (let i = 0; i < 1_000; i += 1) stage.node(`n${i}`, { tts: 1 })
  stage.submit('t')
  for (let page = 0; page < 4; page += 1) stage.after(100)
  const nodes = stage.registry.nodes()
  const steps = explainSteps({ spec: stage.registry.task('t')!.spec, nodes, rules: new Map(), now: 0 })
  let stops = 0
  for (let step = steps.next(); !step.done; step = steps.next()) stops += 1
  assert.equal(stops, 3)
})

test('readers get pages that do not change while they read, and only changed pages are rebuilt', () => {
  const stage = new Stage({ publishMs: 100 })
  const { registry } = stage
  for (let i = 0; i < 300; i += 1) stage.node(`n${i}`, { asr: 1 })
  assert.deepEqual([...registry.nodes()], [])
  // One page at a time, and the next one soon after: pages of many nodes take a while to make.
  for (const [afterMs, count] of [
    [100, 256],
    [5, 300],
  ] as const) {
    const before = registry.version
    stage.after(afterMs)
    assert.equal(registry.version, before + 1)
    assert.equal([...registry.nodes()].length, count)
  }
  const { version } = registry
  stage.after(100)
  assert.equal(registry.version, version)
  const walk = registry.nodes()
  const { value: first } = walk.next()
  stage.do({ kind: 'nodeBye', nodeId: 'n299', epoch: 1 })
  assert.equal(registry.version, version)
  stage.after(100)
  assert.equal(registry.version, version + 1)
  assert.equal([...walk].length, 299, 'who began before sees what was there')
  const nodes = [...registry.nodes()]
  assert.equal(nodes[0], first, 'a page without a change is the same')
  assert.equal(nodes.length, 299)
  assert.equal(nodes.at(-1)!.nodeId, 'n298')
})
