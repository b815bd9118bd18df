import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { Turn } from '../turn.ts'
import { SeatLine } from './index-list.ts'
import type { Pending } from './pending.ts'

const aStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ push: fc.array(fc.nat(99), { maxLength: 50, size: 'max' }) }) },
  { weight: 3, arbitrary: fc.record({ pop: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.constant({ renumber: true }) },
)

test('seats come first in, first out, each with its newest item, also after they were numbered anew', () => {
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), fc.boolean(), (steps, isRanked) => {
    let line: Pending<string> = new SeatLine<string>()
    /** In the order of the line: seat and item. */
    let naive: [seat: number, item: string][] = []
    let version = 0
    for (const step of steps) {
      if ('push' in step) {
        for (const seat of step.push) {
          const item = `item ${++version}`
          const known = naive.find(([queued]) => queued === seat)
          assert.equal(line.has(seat), known !== undefined)
          if (known) line.touch(seat, item, 0)
          else line.push(new Turn(seat, item, 0))
          if (known) known[1] = item
          else naive.push([seat, item])
        }
      } else if ('pop' in step) {
        for (let left = Math.min(step.pop, naive.length); left > 0; left--) {
          const { seat, item, priority } = line.pop()
          assert.deepEqual([seat, item, priority], [...naive.shift()!, 0])
          assert.equal(line.has(seat), false)
        }
      } else {
        // Only those that are queued have a new seat; the others' number says nothing.
        const newSeats = new Uint32Array(100)
        naive.forEach(([seat], at) => {
          newSeats[seat] = naive.length - 1 - at
        })
        line.renumber(newSeats)
        naive = naive.map(([seat, item]) => [newSeats[seat]!, item])
      }
      assert.equal(line.size, naive.length)
    }
    // A priority comes up: everybody keeps their place, and one can now be raised before all others.
    if (isRanked) line = line.ranked()
    const last = isRanked ? naive.pop() : undefined
    if (last) {
      line.touch(last[0], 'raised', 1)
      const { seat, item, priority } = line.pop()
      assert.deepEqual([seat, item, priority], [last[0], 'raised', 1])
    }
    for (const expected of naive) {
      const { seat, item } = line.pop()
      assert.deepEqual([seat, item], expected)
    }
    assert.equal(line.size, 0)
  })
  fc.assert(property, { numRuns: 150 })
})
