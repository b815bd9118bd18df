import assert from 'node:assert/strict'
import { test } from 'vitest'
import { twins } from '../../../test/work-queue/twins.ts'
import { IndexFlags } from './index-flags.ts'
import { drawMultiplier, hashOf, multiplier, NameTable } from './name-table.ts'

const count = 8_192
const cellCount = 2 * count

const families: Record<string, (id: number) => string> = {
  'names that end in a number': (id) => `default/pod-${String(id).padStart(8, '0')}`,
  'names that begin with a number': (id) => `${id}/pods`,
  'names beyond Latin': (id) => `ключ ${id}`,
  'characters that differ in their highest bit': (id) => highBits(id, 1),
  'pairs of such characters': (id) => highBits(id, 2),
}

/** One character, or several, for each bit of an id, which becomes its highest. */
function highBits(id: number, repeat: number): string {
  let name = ''
  for (let bit = 0; bit < 13; bit++)
    name += String.fromCharCode(0x41 | (((id >> bit) & 1) << 15)).repeat(repeat)
  return name
}

test('names with one hash have key indexes of their own, also when the other one is dropped', () => {
  const names = twins()
  assert.ok(names.length >= 4, `${names.length} names share a hash with another`)
  assert.equal(new Set(names.map((name) => hashOf(name, multiplier))).size, names.length / 2)
  const table = new NameTable()
  names.forEach((name, index) => {
    assert.equal(table.get(name), undefined)
    assert.equal(table.take(name, index), index)
  })
  names.forEach((name, index) => {
    assert.deepEqual([table.get(name), table.take(name, 1_000)], [index, index])
  })
  const dropped = new IndexFlags()
  for (let index = 0; index < names.length; index += 2) dropped.raise(index)
  table.drop(dropped)
  names.forEach((name, index) => {
    assert.equal(table.get(name), index % 2 === 0 ? undefined : index)
  })
})

test('names spread over the cells, also those that were made to collide, whatever the multiplier is', () => {
  for (const [family, nameOf] of Object.entries(families)) {
    const names = Array.from({ length: count }, (_, id) => nameOf(id))
    for (let draw = 1; draw <= 8; draw++) {
      // The last sixteen bits of such a draw are all 0, which is the hardest.
      const multiplier = drawMultiplier(() => (draw * 8_171) / 2 ** 16)
      const cells = new Set(names.map((name) => hashOf(name, multiplier) & (cellCount - 1)))
      // Thrown at random, they would fill 6,447.
      assert.ok(cells.size > 4_500, `${family}: ${cells.size} cells, multiplier ${multiplier}`)
    }
  }
})
