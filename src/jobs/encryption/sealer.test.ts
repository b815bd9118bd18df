import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import type { SealContext } from './sealer.ts'
import { createAesSealer } from './sealer.ts'

const [old, young] = [randomBytes(32), randomBytes(32)]
const context: SealContext = { part: 'payload', queue: 'q', kind: 'mail', jobId: 'a' }
const plain = new TextEncoder().encode('{"to":"canary"}')
const sealer = createAesSealer({ keys: { old }, current: 'old' })
const sealed = sealer.seal(plain, context) as Uint8Array

test('a sealed text is unreadable, different each time, and opens again', () => {
  assert.ok(!Buffer.from(sealed).includes('canary'))
  assert.notDeepEqual(sealer.seal(plain, context), sealed)
  assert.deepEqual(new Uint8Array(sealer.open(sealed, context) as Uint8Array), plain)
  assert.deepEqual(
    sealer.open(sealer.seal(new Uint8Array(), context) as Uint8Array, context),
    Buffer.alloc(0),
  )
})

test('after a change of keys the old key still opens and the new one seals', () => {
  const both = createAesSealer({ keys: { old, young }, current: 'young' })
  assert.deepEqual(new Uint8Array(both.open(sealed, context) as Uint8Array), plain)
  const renewed = both.seal(plain, context) as Uint8Array
  assert.throws(() => sealer.open(renewed, context), {
    code: 'payload_sealed',
    details: { ...told, keyId: 'young' },
  })
})

const told = { jobId: 'a', kind: 'mail', part: 'payload' }

test('a seal does not open for another job, kind or part; the queue is not bound', () => {
  for (const other of [{ jobId: 'b' }, { kind: 'sms' }, { part: 'result' as const }])
    assert.throws(() => sealer.open(sealed, { ...context, ...other }), { code: 'seal_broken' })
  sealer.open(sealed, { ...context, queue: 'other' })
})

test('no bit of a seal can be changed, and no part left out', () => {
  for (let at = 0; at < sealed.length; at++) {
    const changed = Uint8Array.from(sealed)
    changed[at]! ^= 1
    // A changed id names a key that is not there, and a changed version another way to seal.
    const code = at < 5 ? 'payload_sealed' : 'seal_broken'
    assert.throws(() => sealer.open(changed, context), { code }, `byte ${at}`)
    assert.throws(() => sealer.open(sealed.subarray(0, at), context), { code: 'seal_broken' }, `${at} bytes`)
  }
  const samename = createAesSealer({ keys: { old: young }, current: 'old' })
  assert.throws(() => samename.open(sealed, context), { code: 'seal_broken' })
})

test('a text of another sealer is left for that sealer, and not called broken', () => {
  const foreign = Uint8Array.from([2, ...sealed.subarray(1)])
  assert.throws(() => sealer.open(foreign, context), { code: 'payload_sealed', details: told })
  assert.throws(() => sealer.open(new TextEncoder().encode('vault:v1:c2VjcmV0'), context), {
    code: 'payload_sealed',
  })
})

test('invalid keys are refused without showing them', () => {
  const secret = 'sesame-sesame-sesame-sesame-1234'
  for (const options of [
    {},
    { keys: {}, current: 'a' },
    { keys: { a: young }, current: 'b' },
    { keys: { a: secret }, current: 'a' },
    { keys: { a: Buffer.from(secret.slice(1)) }, current: 'a' },
    { keys: { ['é'.repeat(40)]: young }, current: 'a' },
    { keys: { a: young }, current: 'a', more: 1 },
  ] as unknown[]) {
    assert.throws(
      () => createAesSealer(options as never),
      (error: { code: string; message: string }) => {
        assert.equal(error.code, 'invalid_argument')
        assert.doesNotMatch(error.message, /sesame/)
        return true
      },
    )
  }
})
