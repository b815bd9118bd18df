import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { TaskSpec } from '../node.ts'
import { type Demand, Demands } from './demand.ts'

const defaultLimit = 20

function taskFor(language: string, kind = language): TaskSpec {
  return {
    ...{ taskId: 't', attempt: 1, maxAttempts: 1, kind, service: 'asr', uses: { asr: 1 } },
    ...{ requires: [{ service: 'asr', where: { language } }], prefers: [], priority: 5, tenant: '' },
    ...{ session: null, submittedAt: 0, deadlineAt: null, idleMs: null, retryable: true },
  }
}

function demandsWithNotes(limit = defaultLimit) {
  const made: Demand[] = []
  const dropped: Demand[] = []
  const demands = new Demands(
    limit,
    (demand) => made.push(demand),
    (demand) => dropped.push(demand),
  )
  return { demands, made, dropped }
}

test('tasks with equal requirements have one demand, whatever the order of their fields', () => {
  const { demands } = demandsWithNotes()
  const first = demands.of(taskFor('en'))
  assert.equal(demands.of(taskFor('en')), first)
  assert.notEqual(demands.of(taskFor('de')), first)
  // Of one kind, and yet another wish: told apart, and found again.
  const other = demands.of(taskFor('fr', 'en'))
  assert.notEqual(other, first)
  assert.equal(demands.of(taskFor('en')), first)
  assert.equal(demands.of(taskFor('fr', 'en')), other)
})

test('a repeated demand outlives demands that come once, within the limit', () => {
  const { demands, made, dropped } = demandsWithNotes()
  const steady = demands.of(taskFor('steady'))
  for (let nth = 0; nth < 1_000; nth += 1) {
    demands.of(taskFor(`once-${nth}`))
    assert.equal(demands.of(taskFor('steady')), steady)
    assert.ok(demands.size <= defaultLimit)
  }
  assert.equal(made.length, 1_001)
  assert.equal(dropped.length, made.length - demands.size)
})

test('repeated demands are forgotten too', () => {
  const { demands } = demandsWithNotes()
  for (let nth = 0; nth < 1_000; nth += 1) {
    const demand = demands.of(taskFor(`twice-${nth}`))
    assert.equal(demands.of(taskFor(`twice-${nth}`)), demand)
    assert.ok(demands.size <= defaultLimit)
  }
  // One that was forgotten is made anew, not found half-way.
  const again = demands.of(taskFor('twice-0'))
  assert.equal(again.isDropped, false)
})

test('with more demands in use than a small limit, each is forgotten once', () => {
  const { demands, dropped } = demandsWithNotes(1)
  for (const language of ['a', 'b', 'c']) demands.of(taskFor(language)).taskCount = 1
  const idle = demands.of(taskFor('d'))
  demands.of(taskFor('d'))
  demands.of(taskFor('e'))
  assert.deepEqual(dropped, [idle])
})
