import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Effect, PoolView } from '../../../src/dispatch/index.ts'
import { assigned, none, Stage } from './fixtures.ts'

const automatic = (pools: readonly PoolView[]) => pools.filter(({ name }) => name === null)

test('nodes with the same capabilities share a pool, whatever their slots and unrequested labels', () => {
  const stage = new Stage()
  for (let i = 0; i < 50; i += 1) stage.node(`n${i}`, { asr: 1 + (i % 5) }, { host: `host-${i}` })
  stage.node('other', { asr: 1, tts: 1 })
  assert.deepEqual(
    automatic(stage.registry.pools())
      .map(({ nodeCount }) => nodeCount)
      .sort(),
    [1, 50],
  )
})

test('pools distinguish a label from its first request on; no task is placed wrongly before', () => {
  const stage = new Stage()
  for (let i = 0; i < 200; i += 1) stage.node(`n${i}`, { asr: 1 }, { host: `host-${i}` })
  const requires = [{ not: { label: 'host', in: Array.from({ length: 199 }, (_, i) => `host-${i}`) } }]
  const first = stage.registry.apply({ kind: 'submit', task: stage.spec('t', { requires }) }, stage.now)
  none(first, 'assign')
  const placed = runSlices(stage, first).filter(({ kind }) => kind === 'assign')
  assert.deepEqual(
    placed.map((effect) => effect.kind === 'assign' && effect.nodeId),
    ['n199'],
  )
})

test('a new requirement is matched with many pools in slices, and its task is placed during that', () => {
  const stage = new Stage({ sliceSteps: 4 })
  for (let i = 0; i < 40; i += 1) stage.node(`n${i}`, [{ name: 'asr', slots: 2, tags: { model: [`m${i}`] } }])
  stage.submit('any')
  for (const model of ['m39', 'm0', 'm20']) {
    const task = stage.spec(model, { requires: [{ service: 'asr', where: { model } }] })
    const effects = runSlices(stage, stage.registry.apply({ kind: 'submit', task }, stage.now))
    assert.deepEqual(assigned(effects), [model])
    assert.equal(stage.registry.task(model)!.nodeId, `n${model.slice(1)}`)
  }
})

test('a task names a pool with a rule, and a change of the rule applies at once', () => {
  const stage = new Stage()
  stage.node('small', { asr: 9 }, { memory: 8 })
  stage.node('large', { asr: 9 }, { memory: 64 })
  const requires = [{ label: 'pool', in: ['large'] }]
  stage.submit('early', { requires })
  assert.equal(stage.registry.task('early')!.status, 'waiting')
  assert.deepEqual(
    assigned(stage.do({ kind: 'definePool', name: 'large', requires: [{ label: 'memory', gte: 32 }] })),
    ['early'],
  )
  assert.equal(stage.registry.task('early')!.nodeId, 'large')
  assert.deepEqual(stage.registry.pools().find(({ name }) => name === 'large')?.nodeCount, 1)
  stage.do({ kind: 'definePool', name: 'large', requires: [{ label: 'memory', lte: 16 }] })
  stage.submit('next', { requires })
  assert.equal(stage.registry.task('next')!.nodeId, 'small')
  stage.do({ kind: 'removePool', name: 'large' })
  none(stage.submit('last', { requires }), 'assign')
})

test('a pool rule that names itself, or another pool, matches nothing instead of looping', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  stage.do({ kind: 'definePool', name: 'a', requires: [{ label: 'pool', in: ['a'] }] })
  none(stage.submit('t', { requires: [{ label: 'pool', in: ['a'] }] }), 'assign')
})

test('a rebuild runs in slices while tasks are placed and nodes change, and ends with the same fleet', () => {
  const stage = new Stage({ sliceSteps: 16 })
  for (let i = 0; i < 500; i += 1) stage.node(`n${i}`, { asr: 2 }, { zone: `z${i % 3}` })
  stage.submit('before', { requires: [{ label: 'zone', in: ['z1'] }] })
  const { generation } = stage.registry.counts()
  let effects = stage.registry.apply({ kind: 'rebuild' }, stage.now)
  let slices = 0
  for (; effects.some(({ kind }) => kind === 'moreWork'); slices += 1) {
    effects = stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
    if (slices === 5) {
      for (const nodeId of ['n3', 'n400']) {
        stage.registry.apply({ kind: 'nodeGone', nodeId, epoch: 1, reason: 'gone' }, stage.now)
      }
      const labels = { zone: 'new' }
      stage.registry.apply({ kind: 'nodeUpdate', nodeId: 'n5', epoch: 1, services: null, labels }, stage.now)
      stage.registry.apply(
        { kind: 'nodeUpdate', nodeId: 'n450', epoch: 1, services: null, labels },
        stage.now,
      )
      assert.deepEqual(
        assigned(stage.registry.apply({ kind: 'submit', task: stage.spec('during') }, stage.now)),
        ['during'],
      )
    }
  }
  assert.ok(slices > 500 / 16)
  assert.equal(stage.registry.counts().generation, generation + 1)
  assert.equal(
    automatic(stage.registry.pools()).reduce((sum, { nodeCount }) => sum + nodeCount, 0),
    498,
  )
  const placed = new Set<string>()
  for (let i = 0; i < 4; i += 1) {
    stage.submit(`new${i}`, { requires: [{ label: 'zone', in: ['new'] }] })
    placed.add(stage.registry.task(`new${i}`)!.nodeId!)
  }
  assert.deepEqual([...placed].sort(), ['n450', 'n5'])
})

test('a rebuild of 10,000 nodes with 8 services never exceeds its share of a turn', () => {
  const stage = new Stage({ sliceSteps: 64 })
  const services = Array.from({ length: 8 }, (_, i) => `service${i}`)
  for (let i = 0; i < 10_000; i += 1) {
    stage.hello(`n${i}`, Object.fromEntries(services.map((name) => [name, 4])), { zone: `z${i % 64}` })
  }
  for (const service of services)
    stage.submit(service, { service, requires: [{ label: 'zone', in: ['z7', 'z8'] }] })
  let slices = 0
  let effects = stage.registry.apply({ kind: 'rebuild' }, stage.now)
  for (; effects.some(({ kind }) => kind === 'moreWork'); slices += 1) {
    effects = stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
    assert.ok(stage.registry.lastSteps <= 80, `${stage.registry.lastSteps} steps`)
  }
  assert.ok(slices > 10_000 / 64, `${slices} slices`)
})

function runSlices(stage: Stage, from: readonly Effect[]): readonly Effect[] {
  const effects = [...from]
  for (let more = from; more.some(({ kind }) => kind === 'moreWork'); ) {
    more = stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
    effects.push(...more)
  }
  return effects
}
