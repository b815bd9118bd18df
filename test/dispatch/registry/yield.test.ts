import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Effect } from '../../../src/dispatch/index.ts'
import { all, assigned, none, only, Stage } from './fixtures.ts'

function handedBack(effects: readonly Effect[]): readonly string[] {
  return all(effects, 'handBack').map(({ taskId }) => taskId)
}

test('a server hands back waiting tasks from the end of its wait queue, and reports no end', () => {
  const stage = new Stage()
  for (const [taskId, priority] of [
    ['high', 9],
    ['old', 5],
    ['new', 5],
    ['low', 1],
  ] as const) {
    stage.submit(taskId, { priority })
  }
  const effects = stage.do({ kind: 'yield', demand: 'asr', count: 2 })
  assert.deepEqual(handedBack(effects), ['low', 'new'])
  none(effects, 'settled')
  none(effects, 'requeue')
  assert.equal(stage.registry.has('low'), false)
  assert.equal(stage.registry.counts().waiting, 2)
  assert.deepEqual(assigned(stage.hello('n', { asr: 4 })), ['high', 'old'])
})

test('a task that has waited long has risen, and is yielded after newer ones', () => {
  const stage = new Stage({ ageMs: 100 })
  stage.submit('patient', { priority: 0 })
  stage.now += 600
  stage.submit('urgent', { priority: 5 })
  assert.deepEqual(handedBack(stage.do({ kind: 'yield', demand: 'asr', count: 1 })), ['urgent'])
})

test('a server yields only waiting tasks of the requested kind', () => {
  const stage = new Stage()
  stage.node('n', { asr: 1 })
  const requires = [{ label: 'zone', in: ['north'] }]
  stage.submit('runs')
  stage.submit('waits')
  stage.submit('other', { kind: 'asr#north', requires })
  stage.submit('prefers', { prefers: [{ label: 'zone', in: ['south'] }] })
  assert.deepEqual(handedBack(stage.do({ kind: 'yield', demand: 'asr', count: 9 })).toSorted(), [
    'prefers',
    'waits',
  ])
  assert.equal(stage.registry.task('runs')!.status, 'assigned')
  const asked = { service: 'asr', uses: { asr: 1 } }
  assert.deepEqual(
    [...stage.registry.waitingKinds()],
    [
      {
        kind: 'asr#north',
        waiting: 1,
        oldestAt: stage.now,
        hasCapacity: false,
        asked: { ...asked, requires },
      },
    ],
  )
  assert.deepEqual(
    [...stage.registry.heldKinds()].toSorted((a, b) => (a.kind < b.kind ? -1 : 1)),
    [
      { kind: 'asr', ...asked, requires: [] },
      { kind: 'asr#north', ...asked, requires },
    ],
  )
  assert.deepEqual(handedBack(stage.do({ kind: 'yield', demand: 'asr', count: 9 })), [])
})

test('a yielded task may return, and ends like any other', () => {
  const stage = new Stage()
  stage.submit('t')
  only(stage.do({ kind: 'yield', demand: 'asr', count: 1 }), 'handBack')
  stage.node('n', { asr: 1 })
  assert.deepEqual(assigned(stage.submit('t', { attempt: 2 })), ['t'])
  assert.equal(only(stage.result('n', 't', 2), 'settled').end, 'completed')
})

test('many tasks are yielded in slices, at most as many as requested', () => {
  const stage = new Stage({ sliceSteps: 16 })
  for (let i = 0; i < 100; i += 1) stage.submit(`t${i}`)
  let effects = stage.registry.apply({ kind: 'yield', demand: 'asr', count: 70 }, stage.now)
  const given = [...handedBack(effects)]
  assert.equal(given.length, 16)
  while (effects.some(({ kind }) => kind === 'moreWork')) {
    effects = stage.registry.apply({ kind: 'rebuildSlice' }, stage.now)
    assert.ok(handedBack(effects).length <= 16)
    given.push(...handedBack(effects))
  }
  assert.deepEqual(
    given,
    Array.from({ length: 70 }, (_, i) => `t${99 - i}`),
  )
})

test('a task that gets a free slot meanwhile is not handed back', () => {
  const stage = new Stage({ sliceSteps: 16 })
  for (let i = 0; i < 30; i += 1) stage.submit(`t${i}`)
  stage.registry.apply({ kind: 'yield', demand: 'asr', count: 30 }, stage.now)
  assert.equal(assigned(stage.hello('n', { asr: 10 })).length, 10)
  assert.equal(handedBack(stage.do({ kind: 'rebuildSlice' })).length, 4)
  assert.equal(stage.registry.counts().waiting, 0)
})

test('waiting tasks are listed by kind, and unknown capacity counts as available', () => {
  const stage = new Stage({ sliceSteps: 4 })
  for (let i = 0; i < 40; i += 1) stage.node(`n${i}`, [{ name: 'asr', slots: 1, tags: { own: [`w${i}`] } }])
  const requires = [{ service: 'asr', where: { own: 'w99' } }]
  const effects = stage.registry.apply(
    { kind: 'submit', task: stage.spec('t', { kind: 'asr#w99', requires }) },
    stage.now,
  )
  assert.equal(all(effects, 'moreWork').length, 1, 'its matching is not done')
  const asked = { service: 'asr', uses: { asr: 1 }, requires }
  const reported = { kind: 'asr#w99', waiting: 1, oldestAt: stage.now, asked }
  assert.deepEqual([...stage.registry.waitingKinds()], [{ ...reported, hasCapacity: true }])
  stage.do({ kind: 'rebuildSlice' })
  assert.deepEqual([...stage.registry.waitingKinds()], [{ ...reported, hasCapacity: false }])
})
