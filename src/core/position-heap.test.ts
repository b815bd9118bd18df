import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { createTimer, PositionHeap, type Timer } from './position-heap.ts'

const aStep = fc.record({ subject: fc.nat(199), at: fc.option(fc.nat(40), { freq: 2 }) })

test('timers become due by time and then by call, however they were moved and cleared', () => {
  const property = fc.property(fc.array(aStep, { maxLength: 600, size: 'max' }), (steps) => {
    const timers = new PositionHeap<Timer<'x', number>>()
    const known = Array.from({ length: 200 }, (_, subject) => createTimer('x', subject))
    /** In the order of the calls. */
    const model = new Map<number, number>()
    for (const { subject, at } of steps) {
      model.delete(subject)
      if (at === null) timers.clear(known[subject]!)
      else {
        timers.set(known[subject]!, at)
        model.set(subject, at)
      }
      assert.equal(timers.size, model.size)
      assert.equal(timers.first?.at ?? Number.POSITIVE_INFINITY, Math.min(...model.values()))
    }
    const inOrder = [...model].sort(([, a], [, b]) => a - b).map(([subject]) => subject)
    const taken: number[] = []
    for (let timer = timers.first; timer !== undefined; timer = timers.first) {
      timers.clear(timer)
      taken.push(timer.subject)
    }
    assert.deepEqual(taken, inOrder)
    assert.equal(timers.size, 0)
  })
  fc.assert(property, { numRuns: 100 })
})
