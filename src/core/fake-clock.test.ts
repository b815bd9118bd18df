import assert from 'node:assert/strict'
import { createFakeClock } from 'signalbox/testing'
import { test } from 'vitest'

test('timers fire in due order, each at its own moment', () => {
  const clock = createFakeClock(1_000)
  const fired: [string, number][] = []
  clock.setTimeout(() => fired.push(['late', clock.now()]), 20)
  clock.setTimeout(() => fired.push(['early', clock.now()]), 10)
  clock.advance(15)
  assert.deepEqual(fired, [['early', 1_010]])
  assert.equal(clock.nextTimerAt, 1_020)
  clock.advance(5)
  assert.deepEqual(fired.at(-1), ['late', 1_020])
  assert.equal(clock.timerCount, 0)
})

test('a timer set by a timer fires within the same advance if it is due then', () => {
  const clock = createFakeClock()
  const fired: number[] = []
  clock.setTimeout(() => clock.setTimeout(() => fired.push(clock.now()), 5), 5)
  clock.advance(10)
  assert.deepEqual(fired, [10])
})

test('a jump changes the reading and fires nothing', () => {
  const clock = createFakeClock()
  let count = 0
  clock.setTimeout(() => count++, 10)
  clock.jump(-1_000)
  assert.equal(clock.now(), -1_000)
  assert.equal(count, 0)
  clock.advance(10)
  assert.equal(count, 1)
})

test('a cleared timer does not fire', () => {
  const clock = createFakeClock()
  const handle = clock.setTimeout(() => assert.fail('fired'), 1)
  clock.clearTimeout(handle)
  clock.advance(2)
  assert.equal(clock.timerCount, 0)
})

test('advancing backwards is refused', () => {
  assert.throws(() => createFakeClock().advance(-1), RangeError)
})
