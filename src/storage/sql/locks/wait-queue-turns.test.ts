import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Rule } from '../../../locks/rules/index.ts'
import { type Perform, type PerformTogether, shareTurns } from './wait-queue-turns.ts'

const queue = { operation: 'pull', resource: 'a' }

/** A rule that asks for nothing. */
function answering(value: unknown): () => Rule<unknown> {
  // biome-ignore lint/correctness/useYield: it has no question.
  return function* () {
    return value
  }
}

/** Runs rules when it is told to, and notes what it was given. */
function createStore(performTogether?: PerformTogether) {
  const turns: { readonly resources: string; readonly count: number; readonly deadline: number }[] = []
  const gates: PromiseWithResolvers<void>[] = []
  const perform: Perform = async (queues, calls, deadline) => {
    const resources = queues.map(({ operation, resource }) => `${operation} ${resource}`).join(', ')
    turns.push({ resources, count: calls.length, deadline })
    const gate = Promise.withResolvers<void>()
    gates.push(gate)
    await gate.promise
    return calls.map(({ rule }) => rule().next().value)
  }
  return { run: shareTurns('ns', perform, performTogether), turns, gates }
}

test('calls that come while a wait queue is busy share the next transaction, in their order', async () => {
  const { run, turns, gates } = createStore()
  const first = run(queue, answering(1))
  const rest = [2, 3, 4].map((value) => run(queue, answering(value)))
  assert.deepEqual(
    turns.map(({ count }) => count),
    [1],
  )
  gates[0]!.resolve()
  assert.equal(await first, 1)
  gates[1]!.resolve()
  assert.deepEqual(await Promise.all(rest), [2, 3, 4])
  assert.deepEqual(
    turns.map(({ count }) => count),
    [1, 3],
  )
})

test('a transaction takes a limited number of steps', async () => {
  const { run, turns, gates } = createStore()
  const answers = Array.from({ length: 200 }, (_, value) => run(queue, answering(value)))
  for (let nr = 0; nr < 5; nr++) {
    gates[nr]!.resolve()
    await new Promise(setImmediate)
  }
  assert.deepEqual(
    await Promise.all(answers),
    Array.from({ length: 200 }, (_, value) => value),
  )
  assert.deepEqual(
    turns.map(({ count }) => count),
    [1, 64, 64, 64, 7],
  )
})

test('wait queues do not wait for each other', async () => {
  const { run, turns, gates } = createStore()
  const blocked = run(queue, answering('a'))
  const other = run({ ...queue, resource: 'b' }, answering('b'))
  assert.equal(turns.length, 2)
  gates[1]!.resolve()
  assert.equal(await other, 'b')
  gates[0]!.resolve()
  assert.equal(await blocked, 'a')
})

test('a failed transaction fails its own calls and no others', async () => {
  const { run, gates } = createStore()
  const first = run(queue, answering(1))
  const second = run(queue, answering(2))
  gates[0]!.reject(new Error('lost'))
  await assert.rejects(first, /lost/)
  gates[1]!.resolve()
  assert.equal(await second, 2)
})

test('the time a call waited is subtracted from its time limit', async () => {
  const { run, turns, gates } = createStore()
  const before = performance.now()
  const first = run(queue, answering(1))
  const second = run(queue, answering(2))
  const after = performance.now()
  await new Promise((resolve) => setTimeout(resolve, 30))
  gates[0]!.resolve()
  await first
  gates[1]!.resolve()
  await second
  for (const { deadline } of turns) assert.ok(deadline >= before + 10_000 && deadline <= after + 10_000)
})

test('concurrent turns of several wait queues run together, a single turn alone', async () => {
  const together: (readonly string[])[] = []
  const { run, turns, gates } = createStore(async (some) => {
    together.push(some.map(({ queue }) => queue.resource))
    return some.map(({ calls }) => calls.map(({ rule }) => rule().next().value))
  })
  const resources = ['a', 'b', 'c']
  const answers = resources.map((resource) => run({ ...queue, resource }, answering(resource)))
  assert.deepEqual(await Promise.all(answers), resources)
  assert.deepEqual([together, turns], [[resources], []])
  const alone = run(queue, answering('alone'))
  while (turns.length === 0) await new Promise(setImmediate)
  gates[0]!.resolve()
  assert.equal(await alone, 'alone')
  assert.equal(together.length, 1)
})

test('a turn that others delay runs alone, and only a few turns run alone at once', async () => {
  let isShared = false
  const { run, turns, gates } = createStore(async (some) => {
    if (isShared) return some.map(({ calls }) => calls.map(() => 'shared'))
    return some.map(() => undefined)
  })
  const resources = ['a', 'b', 'c', 'd']
  const kept = resources.map((resource) => run({ ...queue, resource }, answering(resource)))
  while (turns.length < resources.length) await new Promise(setImmediate)
  isShared = true
  assert.equal(await run({ ...queue, resource: 'e' }, answering('e')), 'shared')
  for (const gate of gates) gate.resolve()
  assert.deepEqual(await Promise.all(kept), resources)
})
