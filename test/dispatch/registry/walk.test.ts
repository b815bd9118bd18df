import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { RegistryPolicy } from '../../../src/dispatch/index.ts'
import { decodeLogEntry, encodeLogEntry, replay } from './event-log.ts'
import { Walk } from './walk.ts'

const policy: Partial<RegistryPolicy> = {
  acceptMs: 3_000,
  cancelGraceMs: 5_000,
  maxWaiting: 40,
  maxDemands: 60,
  ageMs: 500,
  holdAfterMs: 300,
  sliceSteps: 8,
}

/** What a walk must have met, or it proves nothing. */
const met = ['assign', 'settled', 'requeue', 'stale', 'superseded', 'cancelFrame', 'unknownTask', 'handBack']

function walkOn(walk: Walk, steps: number): void {
  for (let step = 0; step < steps; step += 1) {
    walk.step()
    if (step % 10 === 0) walk.model.compare(walk.registry)
    if (step % 100 !== 0) continue
    walk.calm()
    walk.checkNoTaskWaitsInVain()
  }
}

function assertAtRest(walk: Walk): void {
  const { model, registry } = walk
  walk.finish()
  model.compare(registry)
  assert.equal(model.leasesMade, model.leasesEnded, 'every reservation has ended')
  for (const task of model.tasks.values()) assert.equal(task.state, 'ended')
  const { tasks, waiting, timers } = registry.counts()
  assert.deepEqual({ tasks, waiting }, { tasks: 0, waiting: 0 })
  assert.ok(timers <= registry.counts().nodes * 3 + 2, 'no timer is left behind')
}

for (const seed of [1, 2, 3, 4, 5, 6, 101]) {
  test(`a random fleet keeps its invariants in every step, and leaves nothing behind at rest (seed ${seed})`, () => {
    const walk = new Walk(seed, policy)
    walkOn(walk, 5_000)
    for (const kind of met)
      assert.ok((walk.model.counts[kind] ?? 0) > 3, `${kind}: ${walk.model.counts[kind] ?? 0}`)
    assert.ok(walk.registry.version > 3, 'nodes are published')
    assert.ok(walk.refusedCount > 3, `refused: ${walk.refusedCount}`)
    assert.ok(walk.model.orphansMade > 20, `orphans: ${walk.model.orphansMade}`)
    assertAtRest(walk)
  })
}

test('a run of 10,000 commands replayed from its log gives the same effects', () => {
  const walk = new Walk(77, policy)
  while (walk.log.length < 10_000) walk.step()
  const lines = walk.log.map(encodeLogEntry)
  assert.equal(replay(lines.map(decodeLogEntry), { seed: 77, ...policy }), walk.digest.value)
  // Another seed decides otherwise, so the digest does distinguish runs.
  assert.notEqual(replay(walk.log, { seed: 78, ...policy }), walk.digest.value)
})
