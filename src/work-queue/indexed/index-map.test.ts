import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { SeatFlags } from './index-flags.ts'
import { SeatMap } from './index-map.ts'
import { NameTable } from './name-table.ts'

/** Keys of every kind: most are short strings, equal ones made anew each time. */
const objects = Array.from({ length: 20 }, (_, at) => ({ at }))
function keyOf(id: number): unknown {
  if (id % 10 === 7) return objects[id % 20]
  if (id % 10 === 8) return id
  if (id % 10 === 9) return `a name too long for a table of short ones ${id}`
  return id === 0 ? '' : `名 ${id}`
}

/** Flags of those seats below `length` that are meant. */
function flagsOf(length: number, isMeant: (seat: number) => boolean): SeatFlags {
  const flags = new SeatFlags()
  for (let seat = 0; seat < length; seat++) if (isMeant(seat)) flags.raise(seat)
  return flags
}

const manyInTest = 40
const aStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ enter: fc.array(fc.nat(400), { maxLength: 60, size: 'max' }) }) },
  { weight: 1, arbitrary: fc.record({ keepOneIn: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 1, arbitrary: fc.constant({ renumber: true }) },
  { weight: 1, arbitrary: fc.constant({ deleteObjects: true }) },
)

test('whatever holds the keys, and however often they move, each is found at its own seat and no other', () => {
  let most = 0
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), (steps) => {
    const seatOf = new SeatMap(manyInTest)
    const naive = new Map<unknown, number>()
    let length = 0
    for (const step of steps) {
      if ('enter' in step) {
        for (const id of step.enter) {
          const known = naive.get(keyOf(id))
          assert.equal(seatOf.take(keyOf(id), length), known ?? length)
          if (known === undefined) naive.set(keyOf(id), length++)
        }
      } else if ('keepOneIn' in step) {
        seatOf.drop(flagsOf(length, (seat) => seat % step.keepOneIn !== 0))
        for (const [key, seat] of naive) if (seat % step.keepOneIn !== 0) naive.delete(key)
      } else if ('renumber' in step) {
        const newSeats = seatOf.renumber(length)
        for (const [key, seat] of naive) naive.set(key, newSeats[seat]!)
        length = naive.size
        assert.deepEqual(
          [...naive.values()].toSorted((a, b) => a - b),
          [...naive.keys()].map((_, at) => at),
        )
      } else {
        for (const object of objects) if (naive.delete(object)) seatOf.delete(object)
      }
      assert.equal(seatOf.size, naive.size)
      for (let id = 0; id <= 400; id++) assert.equal(seatOf.get(keyOf(id)), naive.get(keyOf(id)))
      most = Math.max(most, naive.size)
    }
  })
  fc.assert(property, { numRuns: 60 })
  assert.ok(most > 2 * manyInTest, `there were to be many keys, and at most ${most} were there`)
})

test('a table gives back what many names needed', () => {
  const table = new NameTable()
  for (let seat = 0; seat < 20_000; seat++) table.take(`name ${seat}`, seat)
  table.drop(flagsOf(20_000, (seat) => seat < 19_990))
  assert.deepEqual([table.size, table.get('name 19995'), table.get('name 5')], [10, 19_995, undefined])
  table.renumber(Uint32Array.from({ length: 20_000 }, (_, seat) => Math.max(0, seat - 19_990)))
  assert.equal(table.get('name 19995'), 5)
  const names: string[] = []
  table.visitAll((name) => names.push(name))
  assert.equal(names.length, 10)
})
