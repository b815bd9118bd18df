import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'vitest'
import { isSignalboxError } from './errors.ts'
import { parseSecretKeys } from './secret-keys.ts'

const [first, second] = [randomBytes(32), randomBytes(32)]

test('a secret key is read from base64, from base64 for URLs and from hexadecimal digits', () => {
  for (const text of [
    first.toString('base64'),
    first.toString('base64url'),
    first.toString('hex'),
    first.toString('hex').toUpperCase(),
    ` ${first.toString('base64')}\n`,
  ])
    assert.deepEqual(
      parseSecretKeys('secretKey', text).map((key) => Buffer.from(key)),
      [first],
    )
})

test('several secret keys are separated by commas and keep their order', () => {
  const keys = parseSecretKeys('secretKey', `${first.toString('hex')}, ${second.toString('base64')}`)
  assert.deepEqual(
    keys.map((key) => Buffer.from(key)),
    [first, second],
  )
  assert.deepEqual(parseSecretKeys('secretKey', [first.toString('hex')]).length, 1)
})

test('a wrong secret key is refused by its name and position, and never quoted', () => {
  const wrong = `x${first.toString('hex').slice(2)}`
  for (const given of ['', wrong, 'short', `${first.toString('hex')},${wrong}`, [], 7, null, [7]])
    assert.throws(
      () => parseSecretKeys('SIGNALBOX_SECRET_KEY', given),
      (error) => {
        assert.ok(isSignalboxError(error, 'invalid_argument'))
        assert.match(error.message, /^SIGNALBOX_SECRET_KEY must be /)
        assert.ok(!error.message.includes(wrong.slice(0, 12)), error.message)
        return true
      },
    )
})
