import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Command, Effect, ServiceOffer, Term } from '../../../src/dispatch/index.ts'
import { assigned, Stage } from './fixtures.ts'

const sliceSteps = 64
/** Beyond its steps a turn may finish what it has begun, and a command does a little work itself. */
const mostSteps = 2 * sliceSteps + 32

/** Applies commands and their slices, and looks at each one's work. */
class Bench extends Stage {
  steps = 0
  slices = 0

  constructor() {
    super({ sliceSteps, maxDemands: 300, maxWaiting: 10_000 })
  }

  override do(command: Command): readonly Effect[] {
    const effects: Effect[] = []
    for (let next: Command | null = command; next !== null; ) {
      const more: readonly Effect[] = this.registry.apply(next, this.now)
      const { lastSteps } = this.registry
      assert.ok(lastSteps <= mostSteps, `${next.kind} took ${lastSteps} steps`)
      this.steps += lastSteps
      this.slices += 1
      effects.push(...more)
      next = more.some(({ kind }) => kind === 'moreWork') ? { kind: 'rebuildSlice' } : null
    }
    return effects
  }

  own(i: number): readonly ServiceOffer[] {
    const language = Array.from({ length: 8 }, (_, k) => `l${(i * 7 + k * 13) % 500}`)
    return [{ name: 'asr', slots: 1, tags: { own: [`w${i}`], language } }]
  }

  ask(taskId: string, term: Term): void {
    this.submit(taskId, { kind: `asr${JSON.stringify(term)}`, requires: [term] })
  }
}

const nodeCount = 1_000
const demandCount = 250

function crowd(): Bench {
  const bench = new Bench()
  for (let i = 0; i < nodeCount; i += 1) bench.node(`n${i}`, bench.own(i), { zone: `z${i % 50}` })
  for (let i = 0; i < demandCount; i += 1) {
    const tag = i % 3 === 0 ? { own: `w${i}` } : { language: `l${i}` }
    const term: Term = { service: 'asr', where: tag }
    bench.ask(`t${i}`, i % 3 === 1 ? { not: term } : term)
  }
  return bench
}

test('no turn exceeds its share, however different the nodes and the demands are', () => {
  const bench = crowd()
  assert.equal(bench.registry.counts().pools, nodeCount, 'every node is a separate pool')
  assert.ok(bench.steps > nodeCount * demandCount, 'every wish was held against every pool, and counted')
  // A demand for a label that makes new pools of all nodes, and then all of them again.
  bench.ask('zone', { label: 'zone', in: ['z7'] })
  assert.equal(bench.registry.task('zone')!.status, 'assigned')
  const { generation } = bench.registry.counts()
  bench.slices = 0
  bench.do({ kind: 'rebuild' })
  assert.equal(bench.registry.counts().generation, generation + 1)
  assert.ok(bench.slices > (nodeCount * demandCount) / mostSteps)
})

test('a unique or changing node is matched with many demands in slices, and gets its work', () => {
  const bench = crowd()
  for (let i = 0; i < 5; i += 1) bench.ask(`odd${i}`, { service: 'asr', where: { own: `odd${i}` } })
  assert.deepEqual(assigned(bench.hello('odd', bench.own(nodeCount))), [])
  const services = [{ name: 'asr', slots: 1, tags: { own: ['odd3'] } }]
  const effects = bench.do({ kind: 'nodeUpdate', nodeId: 'odd', epoch: 1, services, labels: null })
  assert.deepEqual(assigned(effects), ['odd3'])
})

test('the registry forgets demands without tasks in slices', () => {
  const bench = new Bench()
  for (let i = 0; i < nodeCount; i += 1) bench.node(`n${i}`, bench.own(i))
  for (let i = 0; i < 400; i += 1) {
    bench.ask(`t${i}`, { not: { service: 'asr', where: { own: `x${i}` } } })
    bench.do({ kind: 'cancel', taskId: `t${i}`, reason: null })
    bench.after(0)
  }
  assert.ok(bench.registry.counts().demands <= 300)
})

test('a node with thousands of free slots takes waiting tasks turn by turn, in their order', () => {
  const bench = new Bench()
  for (let i = 0; i < 2_000; i += 1) bench.submit(`t${i}`)
  const effects = bench.hello('big', { asr: 1_500 })
  assert.deepEqual(
    assigned(effects),
    Array.from({ length: 1_500 }, (_, i) => `t${i}`),
  )
})

test('forgetting a demand while a new node is matched hides the node from no other demand', () => {
  const stage = new Stage({ sliceSteps: 8, maxDemands: 41 })
  const ask = (own: string): Command => {
    const requires = [{ service: 'asr', where: { own } }]
    return { kind: 'submit', task: stage.spec(own, { kind: `asr#${own}`, requires }) }
  }
  for (let i = 0; i < 40; i += 1) {
    stage.do(ask(`w${i}`))
    stage.do({ kind: 'cancel', taskId: `w${i}`, reason: null })
  }
  stage.do(ask('wanted'))
  const services = [{ name: 'asr', slots: 1, tags: { own: ['wanted'] } }]
  const hello: Command = {
    ...{ kind: 'nodeHello', nodeId: 'n', instanceId: 'i', epoch: 1, services, labels: {}, running: null },
  }
  stage.registry.apply(hello, stage.now)
  stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
  assert.equal(stage.registry.task('wanted')!.status, 'waiting', 'some have looked, it has not')
  // One more than are remembered: the first of them, which has looked, is forgotten.
  stage.registry.apply(ask('more'), stage.now)
  stage.do({ kind: 'rebuildSlice' })
  assert.equal(stage.registry.counts().demands, 41)
  assert.equal(stage.registry.task('wanted')!.status, 'assigned')
})
