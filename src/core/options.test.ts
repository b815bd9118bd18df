import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { isSignalboxError } from './errors.ts'
import {
  callable,
  duration,
  flag,
  oneOf,
  onlyKeys,
  real,
  show,
  text,
  whole,
  withDefaults,
} from './options.ts'

function refused(check: () => unknown, message: RegExp): void {
  assert.throws(check, (error: unknown) => {
    assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
    assert.match(error.message, message)
    return true
  })
}

test('a whole number is accepted unchanged, at both ends of its range', () => {
  assert.equal(whole('limit', 1, { min: 1, max: 5 }), 1)
  assert.equal(whole('limit', 5, { min: 1, max: 5 }), 5)
  assert.equal(whole('limit', Number.MAX_SAFE_INTEGER), Number.MAX_SAFE_INTEGER)
  assert.ok(Object.is(whole('limit', -0), 0))
})

test('a value that is no whole number is refused by name, with the allowed and the given value', () => {
  const all = [
    Number.NaN,
    Number.POSITIVE_INFINITY,
    1.5,
    2 ** 53,
    '5',
    5n,
    null,
    undefined,
    true,
    [5],
    {},
    new Number(5),
  ]
  for (const value of all)
    refused(() => whole('limit', value), /^limit must be a whole number of 0 or more, not .+\.$/)
  refused(() => whole('limit', 6, { min: 1, max: 5 }), /^limit must be a whole number from 1 to 5, not 6\.$/)
  refused(() => whole('limit', -0.5), /not -0\.5/)
})

test('a real number may have a fraction and must be finite', () => {
  assert.equal(real('jitter', 0.2, { max: 1 }), 0.2)
  assert.ok(Object.is(real('jitter', -0), 0))
  for (const value of [Number.NaN, Number.NEGATIVE_INFINITY, '0.2', 1.01]) {
    refused(() => real('jitter', value, { max: 1 }), /^jitter must be a number from 0 to 1, not/)
  }
})

test('a duration is milliseconds, or text with a unit', () => {
  const table = {
    '250ms': 250,
    '30s': 30_000,
    '5m': 300_000,
    '1.5m': 90_000,
    '0.07m': 4_200,
    '24h': 86_400_000,
    '7d': 604_800_000,
  }
  for (const [given, ms] of Object.entries(table)) assert.equal(duration('ttl', given), ms)
  assert.equal(duration('ttl', 1_500), 1_500)
  assert.equal(duration('ttl', '0s'), 0)
})

test('a duration without a unit, with a sign, below a millisecond or out of range is refused', () => {
  const bad = [
    '30',
    '',
    ' 30s',
    '30 s',
    '-1s',
    '+1s',
    '1e3ms',
    '0.5ms',
    '30S',
    '1s1s',
    'Infinity',
    0.5,
    -1,
    Number.NaN,
  ]
  for (const value of [...bad, null, `${'9'.repeat(15)}d`])
    refused(() => duration('ttl', value), /^ttl must be milliseconds/)
  refused(() => duration('ttl', '25h', { min: 100, max: 86_400_000 }), /from 100 to 86400000.*not "25h"/)
})

test('long hostile text is judged quickly', () => {
  const start = performance.now()
  refused(() => duration('ttl', '9'.repeat(50_000)), /ttl/)
  refused(() => text('queue', '\u{1f600}'.repeat(5_000_000)), /queue/)
  assert.ok(performance.now() - start < 1_000)
})

test('a name is 1 to 191 code points of any script', () => {
  for (const name of ['a', '队列', '\u{1f600}'.repeat(191), 'a:b/c d', '__proto__'])
    assert.equal(text('queue', name), name)
})

test('a name that some store would change or refuse is refused here', () => {
  const bad = [
    '',
    'a\0b',
    'a\nb',
    '\u007f',
    '\u0085',
    '\ud800',
    'a\udc00b',
    'a'.repeat(192),
    '\u{1f600}'.repeat(192),
    7,
  ]
  for (const name of bad) refused(() => text('queue', name), /^queue must be text of 1 to 191 characters/)
})

test('a refusal is one line, whatever the value', () => {
  fc.assert(
    fc.property(
      fc.anything({ withNullPrototype: true, withBigInt: true, withSparseArray: true }),
      (value) => {
        const shown = show(value)
        assert.ok(shown.length < 400)
        assert.doesNotMatch(shown, /[\r\n]/)
      },
    ),
  )
  const hostile = {
    toString: () => assert.fail('called'),
    [Symbol.toPrimitive]: () => assert.fail('called'),
  }
  refused(() => whole('limit', hostile), /not an object/)
})

test('a choice is one of the listed values, never a name from a prototype', () => {
  assert.equal(oneOf('want', 'turn', ['result', 'turn']), 'turn')
  for (const value of ['Turn', 'constructor', '__proto__', 0, undefined, ['turn']]) {
    refused(() => oneOf('want', value, ['result', 'turn']), /^want must be one of "result", "turn", not/)
  }
})

test('a flag is true or false and no other value', () => {
  assert.equal(flag('wait', false), false)
  for (const value of [0, 1, 'true', null, undefined])
    refused(() => flag('wait', value), /^wait must be true or false/)
})

test('only a function is accepted as a function', () => {
  assert.equal(callable('step', assert.ok), assert.ok)
  refused(() => callable('step', undefined as never), /^step must be a function, not undefined/)
})

test('an unknown option is refused with the list of known ones, whatever its name', () => {
  onlyKeys('worker', { leaseMs: 1 }, ['leaseMs', 'limit'])
  for (const json of ['{"lease":1}', '{"__proto__":1}', '{"constructor":1}', '{"toString":1}']) {
    refused(
      () => onlyKeys('worker', JSON.parse(json), ['leaseMs', 'limit']),
      /^worker has no option ".+"\. Options: leaseMs, limit\.$/,
    )
  }
  refused(() => onlyKeys('worker', { [Symbol('x')]: 1 }, ['leaseMs']), /has no option "Symbol\(x\)"/)
  for (const value of [null, [], 'leaseMs', 7, undefined]) {
    refused(() => onlyKeys('worker', value, ['leaseMs']), /^worker must be an object/)
  }
})

test('a missing or undefined option takes its default, an inherited one counts as missing', () => {
  const defaults = { leaseMs: 30_000, limit: 1 }
  assert.deepEqual(withDefaults('worker', undefined, defaults), defaults)
  assert.deepEqual(withDefaults('worker', { leaseMs: undefined, limit: 5 }, defaults), {
    leaseMs: 30_000,
    limit: 5,
  })
  assert.deepEqual(withDefaults('worker', Object.create({ limit: 9 }), defaults), defaults)
  refused(() => withDefaults('worker', { lease: 1 } as object, defaults), /has no option "lease"/)
})
