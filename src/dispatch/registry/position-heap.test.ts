import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Dice } from '../matching/choose-node.ts'
import { createTimer, PositionHeap, type Timer } from './position-heap.ts'

test('timers become due in the order of their times, however they were set, moved and cleared', () => {
  const dice = new Dice(7)
  const timers = new PositionHeap<Timer<'x', number>>()
  const known = Array.from({ length: 200 }, (_, subject) => createTimer('x', subject))
  const model = new Map<number, number>()
  for (let step = 0; step < 5_000; step += 1) {
    const timer = known[dice.roll(known.length)]!
    if (dice.roll(3) === 0) {
      timers.clear(timer)
      model.delete(timer.subject)
    } else {
      const at = dice.roll(1_000)
      timers.set(timer, at)
      model.set(timer.subject, at)
    }
    assert.equal(timers.size, model.size)
    assert.equal(timers.first?.at ?? Number.POSITIVE_INFINITY, Math.min(...model.values()))
  }
  let last = 0
  for (let timer = timers.first; timer !== undefined; timer = timers.first) {
    timers.clear(timer)
    assert.ok(timer.at >= last && model.get(timer.subject) === timer.at)
    last = timer.at
    model.delete(timer.subject)
  }
  assert.equal(timers.size, model.size)
})

test('random generators with one seed give the same even sequence, and a seed of zero works too', () => {
  const a = new Dice(42)
  const b = new Dice(42)
  const counts = [0, 0, 0, 0, 0, 0]
  for (let i = 0; i < 6_000; i += 1) {
    const face = a.roll(6)
    assert.equal(face, b.roll(6))
    counts[face]! += 1
  }
  assert.ok(Math.min(...counts) > 800, counts.join(' '))
  assert.ok(
    new Set(
      Array.from(
        { length: 20 },
        (
          (dice) => () =>
            dice.roll(1_000)
        )(new Dice(0)),
      ),
    ).size > 10,
  )
})
