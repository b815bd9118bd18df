import assert from 'node:assert/strict'
import { test } from 'vitest'
import { WideMap } from './wide-map.ts'

test('it is a map, small or large', () => {
  const wide = new WideMap<number>()
  const plain = new Map<string, number>()
  for (let i = 0; i < 5_000; i += 1) {
    const key = `${'long '.repeat(i % 40)}${(i * 7_919) % 2_000}`
    if (i % 3 === 2) {
      assert.equal(wide.delete(key), plain.delete(key))
    } else {
      wide.set(key, i)
      plain.set(key, i)
    }
    assert.equal(wide.size, plain.size)
  }
  assert.ok(plain.size > 1_000)
  for (const [key, value] of plain) assert.equal(wide.get(key), value)
  assert.equal(wide.get('not there'), undefined)
})
