import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { isConnectionLoss, sqlState, toStoreError } from './failures.ts'
import { parseTarget } from './target.ts'

const coded = (code: string, message = 'x') => Object.assign(new Error(message), { code })
const codeOf = (error: unknown) => (toStoreError(error) as { code?: string }).code

test('the address sets the schema and the size of the pool, and the driver gets the rest', () => {
  const target = parseTarget('postgres://u:p@h:1/d?schema=mine&pool=7&application_name=a')
  assert.equal(target.schema, 'mine')
  assert.equal(target.poolSize, 7)
  assert.equal(target.config.connectionString, 'postgres://u:p@h:1/d?application_name=a')
  assert.equal(parseTarget('postgres://h/d').poolSize, 20)
})

test('an invalid address is refused, without its password in the message', () => {
  for (const url of [
    'postgres://u:hunter2@h/d?schema=No',
    'postgres://u:hunter2@h/d?schema=a"b',
    'postgres://u:hunter2@h/d?pool=0',
    'postgres://u:hunter2@h/d?pool=x',
    'hunter2',
  ]) {
    assert.throws(
      () => parseTarget(url),
      (error: Error) => isSignalboxError(error, 'invalid_argument') && !error.message.includes('hunter2'),
    )
  }
})

test('failures of the store have one code each', () => {
  assert.equal(codeOf(coded('ECONNREFUSED')), 'store_unavailable')
  assert.equal(codeOf(coded('EPIPE')), 'store_unavailable')
  assert.equal(codeOf(coded('57P01')), 'store_unavailable')
  assert.equal(codeOf(coded('53100')), 'store_unavailable')
  assert.equal(codeOf(coded('28P01')), 'store_unavailable')
  assert.equal(codeOf(new Error('Connection terminated unexpectedly')), 'store_unavailable')
  assert.equal(codeOf(coded('55P03')), 'store_busy')
  assert.equal(codeOf(coded('57014')), 'store_busy')
  assert.equal(codeOf(new Error('timeout exceeded when trying to connect')), 'store_busy')
  assert.equal(codeOf(coded('42P01')), 'schema_missing')
  // Anything else is a defect and must be seen as it is.
  assert.equal(codeOf(coded('22012')), '22012')
})

test('a network error code is not mistaken for a database code, nor our messages for the driver’s', () => {
  assert.equal(sqlState(coded('EPIPE')), undefined)
  assert.equal(sqlState(coded('40P01')), '40P01')
  assert.equal(isConnectionLoss(coded('EPIPE')), true)
  assert.equal(isConnectionLoss(coded('40P01')), false)
  assert.equal(isConnectionLoss(new Error('Connection terminated unexpectedly')), true)
  assert.equal(
    isConnectionLoss(new SignalboxError('conflict', '"connection terminated" was used before')),
    false,
  )
})
