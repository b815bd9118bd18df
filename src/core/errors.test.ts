import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'vitest'
import { errorCodes, isSignalboxError, SignalboxError } from './errors.ts'
import { version } from './version.ts'

test('an error carries its code, its status, its cause and its details', () => {
  const cause = new Error('disk')
  const error = new SignalboxError('not_found', 'There is no job "7".', { cause, details: { id: '7' } })
  assert.ok(error instanceof Error)
  assert.equal(error.name, 'SignalboxError')
  assert.equal(error.code, 'not_found')
  assert.equal(error.status, 404)
  assert.equal(error.cause, cause)
  assert.deepEqual(error.details, { id: '7' })
  assert.throws(() => Object.assign(error.details, { id: '8' }), TypeError)
})

test('an error without a cause has no cause, and a cause of undefined is kept', () => {
  assert.equal('cause' in new SignalboxError('internal', 'x'), false)
  assert.equal('cause' in new SignalboxError('internal', 'x', { cause: undefined }), true)
})

test('an error is recognised by its code, also when another copy of the package created it', () => {
  const error: unknown = new SignalboxError('forbidden', 'no')
  assert.ok(isSignalboxError(error))
  assert.ok(isSignalboxError(error, 'forbidden'))
  assert.equal(isSignalboxError(error, 'not_found'), false)
  const foreign = Object.assign(new Error('no'), { name: 'SignalboxError', code: 'forbidden' })
  assert.ok(isSignalboxError(foreign, 'forbidden'))
})

test('no other value is taken for a SignalboxError', () => {
  for (const value of [
    undefined,
    null,
    0,
    'forbidden',
    {},
    new Error('no'),
    { code: 'forbidden' },
    () => 1,
  ]) {
    assert.equal(isSignalboxError(value), false)
  }
})

test('every code has an error status and a meaning of one sentence', () => {
  for (const [code, { status, meaning }] of Object.entries(errorCodes)) {
    assert.match(code, /^[a-z]+(_[a-z]+)*$/)
    assert.ok(status >= 400 && status <= 599)
    assert.match(meaning, /^[A-Z].*\.$/)
  }
})

test('the version in the source is the version of the package', async () => {
  const text = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  assert.equal(version, JSON.parse(text).version)
})
