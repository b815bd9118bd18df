import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Clock } from '../../../core/clock.ts'
import { createLoopLag } from './loop-lag.ts'

/** A clock whose only timer fires when the test says so, however late. */
function lateClock() {
  let now = 0
  let pending: (() => void) | undefined
  const clock: Clock = {
    now: () => now,
    setTimeout(callback) {
      pending = callback
      return callback
    },
    clearTimeout: () => {
      pending = undefined
    },
  }
  return {
    clock,
    isSet: () => pending !== undefined,
    fire(afterMs: number) {
      now += afterMs
      pending!()
    },
  }
}

test('a loop that is late again and again is overloaded until it keeps time', () => {
  const set = lateClock()
  const changes: unknown[] = []
  const lag = createLoopLag({ clock: set.clock, onChange: (...change) => changes.push(change) })
  set.fire(250)
  assert.equal(lag.isOverloaded, false)
  set.fire(2_250)
  assert.equal(lag.isOverloaded, false, 'one stall is no reason')
  set.fire(1_500)
  assert.equal(lag.isOverloaded, true)
  set.fire(1_300)
  assert.equal(lag.isOverloaded, true)
  set.fire(300)
  assert.equal(lag.isOverloaded, false)
  assert.deepEqual(changes, [
    [true, 1_250],
    [false, 50],
  ])
  lag.stop()
  assert.equal(set.isSet(), false)
})

test('a pause of the whole process, or now and then a long turn, is not overload', () => {
  const set = lateClock()
  const lag = createLoopLag({ clock: set.clock })
  for (const afterMs of [60_000, 250, 3_000, 250, 1_200, 1_200]) {
    set.fire(afterMs)
    assert.equal(lag.isOverloaded, false)
  }
})
