import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { isSameJson } from './same-json.ts'

test('a value is the same as what its text says, whatever the order of its keys', () => {
  const turned = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(turned)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value)
        .map(([key, each]) => [key, turned(each)])
        .reverse(),
    )
  }
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const read: unknown = JSON.parse(JSON.stringify(value))
      assert.equal(isSameJson(read, turned(read)), true)
    }),
  )
})

test('what has one thing more, less or other is not the same', () => {
  const value = { a: [1, { b: null }], c: 'x' }
  const others: readonly unknown[] = [
    { a: [1, { b: null }] },
    { ...value, d: 1 },
    { ...value, c: 'y' },
    { ...value, a: [1, { b: 0 }] },
    { ...value, a: [1, { b: null }, 2] },
    { ...value, a: { 0: 1, 1: { b: null } } },
    [value],
    null,
    'x',
  ]
  for (const other of others) {
    assert.equal(isSameJson(value, other), false)
    assert.equal(isSameJson(other, value), false)
  }
  // A key that every object seems to have.
  assert.equal(isSameJson(JSON.parse('{"__proto__":{}}'), {}), false)
  assert.equal(isSameJson({}, JSON.parse('{"__proto__":{}}')), false)
})
