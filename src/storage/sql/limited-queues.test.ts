import assert from 'node:assert/strict'
import { test } from 'vitest'
import { LimitedQueues } from './limited-queues.ts'

test('a queue counts as limited until a claim sees it without limits', () => {
  const queues = new LimitedQueues()
  queues.record('mail', true)
  assert.equal(queues.has('mail'), true)
  assert.equal(queues.has('Mail'), false)
  queues.record('mail', false)
  assert.equal(queues.has('mail'), false)
})

test('queues with limits come first every other time, and each of them in turn', () => {
  const queues = new LimitedQueues()
  const [first, second, third] = [queues.comeFirst(), queues.comeFirst(), queues.comeFirst()]
  assert.notEqual(first, second)
  assert.equal(first, third)
  const begun = [1, 2, 3].map(() => queues.inRotation(['a', 'b', 'c'])[0])
  assert.deepEqual([...begun].sort(), ['a', 'b', 'c'])
  assert.deepEqual([...queues.inRotation(['a', 'b', 'c'])].sort(), ['a', 'b', 'c'])
})

test('one claim at a time asks for a queue, also after a failed claim, while other queues are asked', async () => {
  const queues = new LimitedQueues()
  const gate = Promise.withResolvers<void>()
  const order: string[] = []
  const first = queues.inTurn('mail', 60_000, async () => {
    order.push('first')
    await gate.promise
    throw new Error('it failed')
  })
  const second = queues.inTurn('mail', 60_000, async () => order.push('second'))
  const third = queues.inTurn('mail', 60_000, async () => order.push('third'))
  await queues.inTurn('other', 60_000, async () => order.push('other'))
  assert.deepEqual(order, ['first', 'other'])
  gate.resolve()
  await assert.rejects(first, /it failed/)
  await Promise.all([second, third])
  assert.deepEqual(order, ['first', 'other', 'second', 'third'])
})

test('a claim that waits too long for its turn gets an error, and never takes the turn', async () => {
  const queues = new LimitedQueues()
  const gate = Promise.withResolvers<void>()
  const first = queues.inTurn('mail', 60_000, () => gate.promise)
  let hasRun = false
  const late = await queues.inTurn('mail', 10, async () => {
    hasRun = true
    return true
  })
  assert.equal(late, undefined)
  gate.resolve()
  await first
  assert.equal(hasRun, false)
})
