import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { IndexFlags } from './index-flags.ts'
import { IndexMap } from './index-map.ts'
import { NameTable } from './name-table.ts'

/** Keys of every kind: most are short strings, equal ones made anew each time. */
const objects = Array.from({ length: 20 }, (_, at) => ({ at }))
function keyOf(id: number): unknown {
  if (id % 10 === 7) return objects[id % 20]
  if (id % 10 === 8) return id
  if (id % 10 === 9) return `a name too long for a table of short ones ${id}`
  return id === 0 ? '' : `名 ${id}`
}

/** Flags of those key indexes below `length` that are meant. */
function flagsOf(length: number, isMeant: (index: number) => boolean): IndexFlags {
  const flags = new IndexFlags()
  for (let index = 0; index < length; index++) if (isMeant(index)) flags.raise(index)
  return flags
}

const manyInTest = 40
const aStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ enter: fc.array(fc.nat(400), { maxLength: 60, size: 'max' }) }) },
  { weight: 1, arbitrary: fc.record({ keepOneIn: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 1, arbitrary: fc.constant({ renumber: true }) },
  { weight: 1, arbitrary: fc.constant({ deleteObjects: true }) },
)

test('whatever holds the keys, and however often they move, each is found at its own key index and no other', () => {
  let most = 0
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), (steps) => {
    const indexOf = new IndexMap(manyInTest)
    const naive = new Map<unknown, number>()
    let length = 0
    for (const step of steps) {
      if ('enter' in step) {
        for (const id of step.enter) {
          const known = naive.get(keyOf(id))
          assert.equal(indexOf.take(keyOf(id), length), known ?? length)
          if (known === undefined) naive.set(keyOf(id), length++)
        }
      } else if ('keepOneIn' in step) {
        indexOf.drop(flagsOf(length, (index) => index % step.keepOneIn !== 0))
        for (const [key, index] of naive) if (index % step.keepOneIn !== 0) naive.delete(key)
      } else if ('renumber' in step) {
        const newIndexes = indexOf.renumber(length)
        for (const [key, index] of naive) naive.set(key, newIndexes[index]!)
        length = naive.size
        assert.deepEqual(
          [...naive.values()].toSorted((a, b) => a - b),
          [...naive.keys()].map((_, at) => at),
        )
      } else {
        for (const object of objects) if (naive.delete(object)) indexOf.delete(object)
      }
      assert.equal(indexOf.size, naive.size)
      for (let id = 0; id <= 400; id++) assert.equal(indexOf.get(keyOf(id)), naive.get(keyOf(id)))
      most = Math.max(most, naive.size)
    }
  })
  fc.assert(property, { numRuns: 60 })
  assert.ok(most > 2 * manyInTest, `there were to be many keys, and at most ${most} were there`)
})

test('a table gives back what many names needed', () => {
  const table = new NameTable()
  for (let index = 0; index < 20_000; index++) table.take(`name ${index}`, index)
  table.drop(flagsOf(20_000, (index) => index < 19_990))
  assert.deepEqual([table.size, table.get('name 19995'), table.get('name 5')], [10, 19_995, undefined])
  table.renumber(Uint32Array.from({ length: 20_000 }, (_, index) => Math.max(0, index - 19_990)))
  assert.equal(table.get('name 19995'), 5)
  const names: string[] = []
  table.visitAll((name) => names.push(name))
  assert.equal(names.length, 10)
})
