import assert from 'node:assert/strict'
import { test } from 'vitest'
import { describeError, encodeError } from './describe-error.ts'
import { isSignalboxError } from './errors.ts'

/** A thing that throws however it is touched. */
function untouchable(): object {
  const refuse = () => {
    throw new Error('do not touch')
  }
  return new Proxy({}, { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse })
}

test('an error keeps its name, message, code and stack', () => {
  const error = Object.assign(new TypeError('no such user'), { code: 'ENOUSER' })
  const { stack, ...rest } = describeError(error)
  assert.deepEqual(rest, { name: 'TypeError', message: 'no such user', code: 'ENOUSER' })
  assert.match(stack!, /no such user/)
})

test('a thrown text becomes the message, and a code may be a number', () => {
  assert.deepEqual(describeError('plain'), { message: 'plain' })
  assert.deepEqual(describeError({ message: 'x', code: 1205 }), { message: 'x', code: '1205' })
})

test('any thrown value has a message', () => {
  for (const [thrown, message] of [
    [undefined, /undefined/],
    [null, /null/],
    [0, /0/],
    [12n, /12/],
    [false, /false/],
    [Symbol('late'), /late/],
    [() => 1, /=>/],
    [{}, /without a message/],
    [Object.create(null), /without a message/],
    [[], /without a message/],
    [{ message: 5n }, /^\{"message":"5"\}$/],
  ] as const) {
    const described = JSON.parse(encodeError(thrown)) as { message: string }
    assert.match(described.message, message)
  }
})

test('an object without a message keeps its fields, as message and as details', () => {
  const circle: Record<string, unknown> = { at: 'start' }
  circle.self = circle
  const shared = { n: 1 }
  for (const [thrown, kept] of [
    [{ error: 'boom' }, { message: 'boom', details: { error: 'boom' } }],
    [{ error: { code: 5 } }, { message: '{"error":{"code":5}}', details: { error: { code: 5 } } }],
    [{ status: 503n }, { message: '{"status":"503"}', details: { status: '503' } }],
    [circle, { message: '{"at":"start","self":"[circular]"}', details: { at: 'start', self: '[circular]' } }],
    [
      { a: shared, b: shared },
      { message: '{"a":{"n":1},"b":{"n":1}}', details: { a: { n: 1 }, b: { n: 1 } } },
    ],
    [
      { message: 'no', why: [1] },
      { message: 'no', details: { message: 'no', why: [1] } },
    ],
    [
      { error: 'boom', 'a\0': '\ud800' },
      { message: 'boom', details: { error: 'boom', 'a\ufffd': '\ufffd' } },
    ],
  ] as const) {
    assert.deepEqual(describeError(thrown), kept)
    // A failure may be described by a client, and again by the server.
    assert.deepEqual(describeError(describeError(thrown)), kept)
  }
  assert.equal('details' in describeError(Object.assign(new Error('no'), { request: { secret: 1 } })), false)
})

test('details that are too long for a store are cut to text', () => {
  const { message, details } = describeError({ text: 'x'.repeat(1_000_000) })
  assert.equal(message.length, 4_000)
  assert.equal((details as string).length, 16_000)
  assert.ok(describeError(describeError({ text: 'x'.repeat(1_000_000) })).details === details)
})

test('a value that throws on access is still described', () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const getters = {
    get message() {
      throw new Error('message')
    },
    get name() {
      throw new Error('name')
    },
    get code() {
      throw new Error('code')
    },
    get stack() {
      throw new Error('stack')
    },
  }
  const hostile = {
    toString() {
      throw new Error('toString')
    },
  }
  for (const thrown of [untouchable(), proxy, getters, hostile]) {
    assert.equal(describeError(thrown).message, 'The handler threw a value without a message.')
    assert.equal(isSignalboxError(thrown, 'lease_lost'), false)
  }
  const callable = Object.assign(() => 1, { toString: hostile.toString })
  assert.equal(describeError(callable).message, 'The handler threw a value that cannot be shown.')
})

test('huge values are cut, and values that no store keeps are replaced', () => {
  const huge = Object.assign(new Error('🚀'.repeat(100_000)), {
    name: 'N'.repeat(10_000),
    code: 'C'.repeat(10_000),
    stack: 'S'.repeat(1_000_000),
  })
  const { name, message, code, stack } = describeError(huge)
  assert.deepEqual([name!.length, message.length, code!.length, stack!.length], [191, 4_000, 191, 8_000])
  assert.ok(message.isWellFormed())
  assert.ok(encodeError(huge).length < 30_000)
  assert.deepEqual(describeError('a\0b\ud800c'), { message: 'a\ufffdb\ufffdc' })
})
