import assert from 'node:assert/strict'
import { isSignalboxError } from 'signalbox'
import { expect, test } from 'vitest'
import { canonicalJson } from './digest.ts'

test('equal values have one text, whatever the order of their fields', () => {
  const text = canonicalJson('state', {
    b: [{ z: 1, a: null }, [], ['"', -0, 1e21]],
    a: { é: true, '10': 1, '9': 2 },
  })
  assert.equal(text, '{"a":{"10":1,"9":2,"é":true},"b":[{"a":null,"z":1},[],["\\"",0,1e+21]]}')
  assert.equal(canonicalJson('state', {}), '{}')
  assert.equal(canonicalJson('state', [1, 'two', null, false]), '[1,"two",null,false]')
  assert.equal(canonicalJson('state', 'text'), '"text"')
  assert.equal(canonicalJson('state', undefined), 'null')
})

test('undefined and ignored fields are left out, also in the items of an array', () => {
  const state = { at: 1, offer: { seenAt: 2, price: 3 }, courts: [{ seenAt: 4, nr: 5 }, 6], gone: undefined }
  assert.equal(
    canonicalJson('state', state, ['at', 'offer.seenAt', 'courts.seenAt']),
    '{"courts":[{"nr":5},6],"offer":{"price":3}}',
  )
})

test('a value is checked as a whole, also its ignored fields', () => {
  const large = 'x'.repeat(300_000)
  const isTooLarge = (error: unknown) => isSignalboxError(error, 'too_large')
  expect(() => canonicalJson('state', { large }, ['large'])).toThrowError(expect.toSatisfy(isTooLarge))
  expect(() => canonicalJson('state', ['ü'.repeat(100_000), 'ü'.repeat(100_000)])).toThrowError(
    expect.toSatisfy(isTooLarge),
  )
  expect(() => canonicalJson('state', { at: new Date() })).toThrowError(/at is a Date/)
})
