import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { IndexList, type Pending } from './pending.ts'
import { Turn } from './turn.ts'

const aStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ push: fc.array(fc.nat(99), { maxLength: 50, size: 'max' }) }) },
  { weight: 3, arbitrary: fc.record({ pop: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.constant({ renumber: true }) },
)

test('key indexes come first in, first out, each with its newest item, also after a renumbering', () => {
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), fc.boolean(), (steps, isRanked) => {
    let pending: Pending<string> = new IndexList<string>()
    /** In the order of the queue: key index and item. */
    let naive: [index: number, item: string][] = []
    let version = 0
    for (const step of steps) {
      if ('push' in step) {
        for (const index of step.push) {
          const item = `item ${++version}`
          const known = naive.find(([queued]) => queued === index)
          assert.equal(pending.has(index), known !== undefined)
          if (known) pending.touch(index, item, 0)
          else pending.push(new Turn(index, item, 0))
          if (known) known[1] = item
          else naive.push([index, item])
        }
      } else if ('pop' in step) {
        for (let left = Math.min(step.pop, naive.length); left > 0; left--) {
          const { index, item, priority } = pending.pop()
          assert.deepEqual([index, item, priority], [...naive.shift()!, 0])
          assert.equal(pending.has(index), false)
        }
      } else {
        // Only those that are queued have a new key index; the others' number says nothing.
        const newIndexes = new Uint32Array(100)
        naive.forEach(([index], at) => {
          newIndexes[index] = naive.length - 1 - at
        })
        pending.renumber(newIndexes)
        naive = naive.map(([index, item]) => [newIndexes[index]!, item])
      }
      assert.equal(pending.size, naive.length)
    }
    // A priority comes up: every key keeps its position, and one can now be raised before all others.
    if (isRanked) pending = pending.ranked()
    const last = isRanked ? naive.pop() : undefined
    if (last) {
      pending.touch(last[0], 'raised', 1)
      const { index, item, priority } = pending.pop()
      assert.deepEqual([index, item, priority], [last[0], 'raised', 1])
    }
    for (const expected of naive) {
      const { index, item } = pending.pop()
      assert.deepEqual([index, item], expected)
    }
    assert.equal(pending.size, 0)
  })
  fc.assert(property, { numRuns: 150 })
})
