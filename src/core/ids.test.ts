import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { createId, createIds, decodeIdTime, isId } from './ids.ts'

test('ids sort in order of creation, whatever the clock does', () => {
  const readings = fc.array(fc.integer({ min: 0, max: 2 ** 47 }), { minLength: 1, maxLength: 200 })
  fc.assert(
    fc.property(readings, (times) => {
      let at = 0
      const next = createIds({ now: () => times[at++]! })
      const ids = times.map(() => next())
      assert.deepEqual([...ids].sort(), ids)
      assert.equal(new Set(ids).size, ids.length)
      assert.ok(ids.every(isId))
    }),
  )
})

test('an id contains its creation time, for every time it can hold', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (time) => {
      assert.equal(decodeIdTime(createIds({ now: () => time + 0.9 })()), time)
    }),
  )
})

test('a clock that steps back does not make ids fall', () => {
  let time = 5_000
  const next = createIds({ now: () => time })
  const before = next()
  time = 1_000
  const after = next()
  assert.ok(after > before)
  assert.equal(decodeIdTime(after), 5_000)
})

test('a million ids in a row are distinct and sorted', () => {
  let last = ''
  for (let i = 0; i < 1_000_000; i++) {
    const id = createId()
    // Strictly rising implies distinct.
    if (id <= last) assert.fail(`${id} came after ${last}`)
    last = id
  }
})

test('a millisecond with too many ids continues in the next millisecond', () => {
  const next = createIds({ now: () => 1_000 })
  let last = next()
  for (let i = 0; i < 2 ** 20; i++) {
    const id = next()
    if (id <= last) assert.fail(`${id} came after ${last}`)
    last = id
  }
  assert.ok(decodeIdTime(last) > 1_000)
})

test('generators that share a clock do not share ids', () => {
  const now = () => 1_000
  const ids = Array.from({ length: 2_000 }, () => createIds({ now })())
  assert.equal(new Set(ids).size, ids.length)
  assert.equal(new Set(ids.map((id) => id.slice(14))).size, ids.length)
})

test('an id has 26 lower-case characters that need no escaping', () => {
  const id = createId()
  assert.equal(id.length, 26)
  assert.equal(encodeURIComponent(id), id)
  assert.equal(id.toLowerCase(), id)
  assert.ok(Math.abs(decodeIdTime(id) - Date.now()) < 10_000)
})

test('an invalid id is not read as one', () => {
  for (const text of [
    '',
    'x',
    createId().toUpperCase(),
    `${createId()}0`,
    `8${createId().slice(1)}`,
    'i'.repeat(26),
  ]) {
    assert.equal(isId(text), false, text)
    assert.throws(() => decodeIdTime(text), { code: 'invalid_argument' })
  }
})

test('an invalid clock value is refused', () => {
  for (const time of [Number.NaN, -1, 2 ** 48, Number.POSITIVE_INFINITY]) {
    assert.throws(() => createIds({ now: () => time })(), { code: 'invalid_argument' })
  }
})
