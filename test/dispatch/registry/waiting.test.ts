import assert from 'node:assert/strict'
import { test } from 'vitest'
import { assigned, none, only, Stage } from './fixtures.ts'

test('a new capability wakes exactly the tasks that became possible', () => {
  const stage = new Stage()
  stage.submit('tts', { service: 'tts' })
  stage.submit('asr-zh', { requires: [{ service: 'asr', where: { language: 'zh' } }] })
  stage.submit('asr-en', { requires: [{ service: 'asr', where: { language: 'en' } }] })
  stage.submit('asr-en-too', { requires: [{ service: 'asr', where: { language: 'en' } }] })
  assert.deepEqual(assigned(stage.hello('n', [{ name: 'asr', slots: 1, tags: { language: ['en'] } }])), [
    'asr-en',
  ])
  assert.deepEqual(assigned(stage.result('n', 'asr-en')), ['asr-en-too'])
  assert.equal(stage.registry.counts().waiting, 2)
})

test('higher priorities are served first, and equal priorities by age', () => {
  const stage = new Stage()
  for (const [taskId, priority] of [
    ['low', 0],
    ['high', 9],
    ['mid', 5],
    ['mid-later', 5],
  ] as const) {
    stage.submit(taskId, { priority })
  }
  assert.deepEqual(assigned(stage.hello('n', { asr: 4 })), ['high', 'mid', 'mid-later', 'low'])
})

test('priority and age also order tasks that ask for different things of one node', () => {
  const stage = new Stage()
  stage.submit('low', { service: 'asr', priority: 1 })
  stage.submit('high', { service: 'asr', priority: 8, requires: [{ not: { label: 'old' } }] })
  assert.deepEqual(assigned(stage.hello('n', { asr: 2 })), ['high', 'low'])
})

test('an endless stream of urgent tasks does not starve a task of low priority', () => {
  const stage = new Stage({ ageMs: 100, acceptMs: 0 })
  stage.node('n', { asr: 1 })
  stage.submit('urgent0', { priority: 9 })
  stage.submit('patient', { priority: 0 })
  let running = 'urgent0'
  for (let i = 1; i < 400; i += 1) {
    stage.submit(`urgent${i}`, { priority: 9 })
    stage.now += 10
    ;[running] = assigned(stage.result('n', running)) as [string]
    if (running === 'patient') return assert.ok(i <= 220, `served after ${i} others`)
  }
  assert.fail('it was never served')
})

test('tenants share equally: no tenant is ever more than one task ahead', () => {
  const stage = new Stage({ maxWaiting: 10_000 })
  for (let i = 0; i < 400; i += 1) stage.submit(`c${i}`, { tenant: 'c' })
  for (let i = 0; i < 400; i += 1) stage.submit(`a${i}`, { tenant: 'a' })
  for (let i = 0; i < 400; i += 1) stage.submit(`b${i}`, { tenant: 'b' })
  const served: Record<string, number> = { a: 0, b: 0, c: 0 }
  let [running] = assigned(stage.hello('n', { asr: 1 })) as [string]
  for (let i = 0; i < 600; i += 1) {
    served[running[0]!]! += 1
    const shares = Object.values(served)
    assert.ok(Math.max(...shares) - Math.min(...shares) <= 1, JSON.stringify(served))
    ;[running] = assigned(stage.result('n', running)) as [string]
  }
  assert.deepEqual(served, { a: 200, b: 200, c: 200 })
})

test('tenants share a node fairly also when they ask for different things of it', () => {
  const stage = new Stage()
  for (let i = 0; i < 40; i += 1) stage.submit(`a${i}`, { tenant: 'a' })
  for (let i = 0; i < 40; i += 1)
    stage.submit(`b${i}`, { tenant: 'b', requires: [{ not: { label: 'old' } }] })
  const served: Record<string, number> = { a: 0, b: 0 }
  let [running] = assigned(stage.hello('n', { asr: 1 })) as [string]
  for (let i = 0; i < 60; i += 1) {
    served[running[0]!]! += 1
    assert.ok(Math.abs(served.a! - served.b!) <= 1, JSON.stringify(served))
    ;[running] = assigned(stage.result('n', running)) as [string]
  }
})

test('a tenant that was served, went away and returns has no saved credit', () => {
  const stage = new Stage()
  for (let i = 0; i < 100; i += 1) stage.submit(`a${i}`, { tenant: 'a' })
  stage.submit('b-early', { tenant: 'b' })
  let [running] = assigned(stage.hello('n', { asr: 1 })) as [string]
  for (let i = 0; i < 40; i += 1) [running] = assigned(stage.result('n', running)) as [string]
  for (let i = 0; i < 20; i += 1) stage.submit(`b${i}`, { tenant: 'b' })
  let late = 0
  for (let i = 0; i < 20; i += 1) {
    ;[running] = assigned(stage.result('n', running)) as [string]
    if (running.startsWith('b')) late += 1
  }
  assert.equal(late, 10)
})

test('a tenant that arrives late is served at once, and gets no extra share for its absence', () => {
  const stage = new Stage()
  for (let i = 0; i < 100; i += 1) stage.submit(`a${i}`, { tenant: 'a' })
  let [running] = assigned(stage.hello('n', { asr: 1 })) as [string]
  for (let i = 0; i < 50; i += 1) [running] = assigned(stage.result('n', running)) as [string]
  for (let i = 0; i < 20; i += 1) stage.submit(`b${i}`, { tenant: 'b' })
  let late = 0
  for (let i = 0; i < 20; i += 1) {
    ;[running] = assigned(stage.result('n', running)) as [string]
    if (running.startsWith('b')) late += 1
  }
  assert.equal(late, 10)
})

test('small tasks do not starve a large one: after a while a node is reserved for it', () => {
  const stage = new Stage({ holdAfterMs: 1_000, ageMs: 100, acceptMs: 0 })
  stage.node('n', { asr: 4 })
  const running: string[] = []
  let number = 0
  const more = () => {
    number += 1
    running.push(...assigned(stage.submit(`s${number}`)))
  }
  for (let i = 0; i < 8; i += 1) more()
  stage.submit('big', { uses: { asr: 4 } })
  for (let i = 0; i < 200; i += 1) {
    stage.now += 50
    more()
    const effects = stage.result('n', running.shift()!)
    if (assigned(effects).includes('big')) return
    running.push(...assigned(effects))
    assert.ok(stage.used('n') <= 4)
  }
  assert.fail('it was never served')
})

test('a reserved node is released when its task ends', () => {
  const stage = new Stage({ holdAfterMs: 0, ageMs: 100, acceptMs: 0 })
  stage.node('n', { asr: 2 })
  stage.submit('a')
  stage.submit('b')
  stage.submit('big', { uses: { asr: 2 }, priority: 9 })
  stage.submit('c')
  none(stage.result('n', 'a'), 'assign')
  assert.equal(stage.registry.node('n')!.heldFor, 'big')
  assert.deepEqual(assigned(stage.do({ kind: 'cancel', taskId: 'big', reason: null })), ['c'])
  assert.equal(stage.registry.node('n')!.heldFor, null)
})

test('a reserved node is released when its pool is redefined without it', () => {
  const stage = new Stage({ holdAfterMs: 0, acceptMs: 0 })
  stage.do({ kind: 'definePool', name: 'p', requires: [{ label: 'memory', gte: 8 }] })
  stage.node('n', { asr: 2 }, { memory: 8 })
  stage.submit('a')
  stage.submit('b')
  stage.submit('big', { uses: { asr: 2 }, priority: 9, requires: [{ label: 'pool', in: ['p'] }] })
  none(stage.result('n', 'a'), 'assign')
  assert.equal(stage.registry.node('n')!.heldFor, 'big')
  stage.do({ kind: 'definePool', name: 'p', requires: [{ label: 'memory', gte: 64 }] })
  none(stage.result('n', 'b'), 'assign')
  assert.equal(stage.registry.node('n')!.heldFor, null)
  assert.deepEqual(assigned(stage.submit('c')), ['c'])
})

test('admission is refused with a retry time when too many tasks wait, in total or of one tenant', () => {
  const stage = new Stage({ maxWaiting: 2, maxWaitingPerTenant: 1 })
  assert.equal(stage.registry.admission('x'), null)
  stage.submit('a', { tenant: 'x' })
  assert.notEqual(stage.registry.admission('x'), null)
  assert.equal(stage.registry.admission('y'), null)
  stage.submit('c', { tenant: 'y' })
  const retryAfterMs = stage.registry.admission('z')!
  assert.ok(retryAfterMs >= 1_000 && retryAfterMs <= 60_000)
  // A task that is durable already is taken in.
  stage.submit('d', { tenant: 'z' })
  assert.equal(stage.registry.counts().tasks, 3)
})

test('a cancelled task leaves the wait queue at once', () => {
  const stage = new Stage()
  stage.submit('a')
  stage.submit('b')
  assert.equal(only(stage.do({ kind: 'cancel', taskId: 'a', reason: null }), 'settled').end, 'cancelled')
  assert.deepEqual(assigned(stage.hello('n', { asr: 2 })), ['b'])
})
