import assert from 'node:assert/strict'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { test } from 'vitest'
import { isSignalboxError } from './errors.ts'
import { encodeJson, maxJsonBytes, maxJsonDepth } from './json.ts'

function nested(depth: number, innermost: unknown = 1): unknown {
  let value = innermost
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { in: value }
  return value
}

function refuses(
  value: unknown,
  message: RegExp,
  code: 'invalid_argument' | 'too_large' = 'invalid_argument',
) {
  assert.throws(
    () => encodeJson('add.payload', value),
    (error) => {
      assert.ok(isSignalboxError(error, code), `${error}`)
      assert.match(error.message, message)
      assert.match(error.message, /add\.payload/)
      return true
    },
  )
}

class Money {
  readonly cents = 5
}

test('JSON values are read back as they were written', () => {
  fc.assert(
    fc.property(
      // Without what is refused: NUL, half a surrogate pair (JSON escapes both), __proto__.
      fc
        .jsonValue({ maxDepth: 8, noUnicodeString: false })
        .filter((value) => !/\\u0000|\\ud[89a-f]|__proto__/.test(JSON.stringify(value))),
      (value) => {
        // JSON has one zero.
        assert.deepEqual(JSON.parse(encodeJson('payload', value)), JSON.parse(JSON.stringify(value)))
      },
    ),
    { numRuns: 500 },
  )
})

test('undefined becomes null, and a property with undefined is absent', () => {
  assert.equal(encodeJson('payload', undefined), 'null')
  assert.equal(encodeJson('payload', null), 'null')
  assert.equal(encodeJson('payload', { a: undefined, b: null }), '{"b":null}')
})

test('objects without a prototype, and of another realm, are plain', () => {
  assert.equal(encodeJson('payload', Object.assign(Object.create(null), { a: 1 })), '{"a":1}')
  assert.equal(encodeJson('payload', runInNewContext('({ a: [1, { b: 2 }] })')), '{"a":[1,{"b":2}]}')
})

test('values that JSON would change are refused by name and position', () => {
  refuses(Number.NaN, /NaN/)
  refuses({ a: Number.POSITIVE_INFINITY }, /payload\.a is Infinity/)
  refuses({ at: new Date(0) }, /payload\.at is a Date/)
  refuses([new Money()], /payload\[0\] is a Money/)
  refuses(new Map(), /a Map/)
  refuses(new Set([1]), /a Set/)
  refuses(new Uint8Array(2), /a Uint8Array/)
  refuses(new String('x'), /a String/)
  refuses(/x/, /a RegExp/)
  refuses(new Error('x'), /an? Error/)
  refuses([1, undefined], /payload\[1\] is undefined/)
  // biome-ignore lint/suspicious/noSparseArray: that is what is refused.
  refuses([1, , 3], /payload\[1\] is undefined/)
  refuses(12n, /a bigint/)
  refuses({ f: () => 1 }, /payload\.f is a function/)
  refuses([Symbol('s')], /a symbol/)
  refuses({ toJSON: () => 1 }, /toJSON/)
  refuses(Object.assign([1], { toJSON: () => undefined }), /toJSON/)
})

test('text that some engine cannot store is refused, as a value and as a name', () => {
  refuses('a\0b', /NUL/)
  refuses({ 'a\0': 1 }, /NUL/)
  refuses('\ud800', /surrogate/)
  refuses(['x\udc00y'], /surrogate/)
  refuses({ '\ud83d': 1 }, /surrogate/)
  assert.equal(encodeJson('payload', '\ud83d\ude80'), '"🚀"')
  // Long text takes another way through the checks.
  refuses(`${'x'.repeat(20_000)}\0`, /NUL/)
  refuses(`${'x'.repeat(20_000)}\ud800`, /surrogate/)
})

test('a property named __proto__ is refused at every depth, and pollutes nothing', () => {
  refuses(JSON.parse('{"__proto__": {"polluted": true}}'), /__proto__/)
  refuses(JSON.parse('{"a": [{"__proto__": 1}]}'), /payload\.a\[0\]/)
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
})

test('32 levels are accepted and 33 are not; a cycle is too deep', () => {
  assert.deepEqual(JSON.parse(encodeJson('payload', nested(maxJsonDepth))), nested(maxJsonDepth))
  refuses(nested(maxJsonDepth + 1), /32 levels/)
  refuses(nested(maxJsonDepth, []), /32 levels/)
  const circle: { self?: unknown } = {}
  circle.self = circle
  refuses(circle, /32 levels/)
  const ring: unknown[] = []
  ring.push([ring])
  refuses(ring, /32 levels/)
  refuses(nested(5_000), /32 levels/)
})

test('256 KiB is counted in bytes, and exactly 256 KiB are accepted', () => {
  const quotes = 2
  const exactly = 'x'.repeat(maxJsonBytes - quotes)
  assert.equal(encodeJson('payload', exactly).length, maxJsonBytes)
  refuses(`${exactly}x`, /262144 bytes/, 'too_large')
  // Two bytes a character, three, four, and one that is escaped.
  for (const [character, bytes] of [
    ['é', 2],
    ['統', 3],
    ['🚀', 4],
    ['\n', 2],
  ] as const) {
    const count = Math.floor((maxJsonBytes - quotes) / bytes)
    encodeJson('payload', character.repeat(count))
    refuses(character.repeat(count + 1), /262144/, 'too_large')
  }
})

test('values of exactly 256 KiB are accepted, whatever they consist of', () => {
  const fill = (frame: (text: string) => unknown) => {
    const rest = maxJsonBytes - JSON.stringify(frame('')).length
    const whole = frame('x'.repeat(rest))
    assert.equal(Buffer.byteLength(encodeJson('payload', whole)), maxJsonBytes)
    refuses(frame('x'.repeat(rest + 1)), /262144/, 'too_large')
  }
  fill((text) => [text])
  fill((text) => ({ text }))
  fill((text) => ({ text, ...Object.fromEntries(Array.from({ length: 9_000 }, (_, n) => [`key${n}`, n])) }))
  fill((text) => [text, ...Array.from({ length: 20_000 }, () => ({ a: [1, true, null] }))].slice(0, 10_001))
})

test('a value that is small in memory and endless as text is refused at once', () => {
  let value: unknown = ['x']
  for (let level = 0; level < 30; level++) value = [value, value]
  const begunAt = performance.now()
  refuses(value, /262144/, 'too_large')
  assert.ok(performance.now() - begunAt < 1_000)
  refuses(
    Array.from({ length: 1_000_000 }, () => 0),
    /262144/,
    'too_large',
  )
  refuses({ text: 'x'.repeat(50_000_000) }, /262144/, 'too_large')
})

test('a message quotes only the start of a long path', () => {
  assert.throws(
    () => encodeJson('payload', { ['k'.repeat(5_000)]: Number.NaN }),
    (error: Error) => error.message.length < 400,
  )
})
