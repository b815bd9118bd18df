import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type ErrorCode, SignalboxError } from '../../src/http/client/index.ts'
import { lossOf } from './loss.ts'

test('a connection loss is named after its cause, and an error of one request is no loss', () => {
  const lossFor = (code: ErrorCode, details: Record<string, unknown> = {}) =>
    lossOf(new SignalboxError(code, 'It failed.', { details }))
  // The client made this one: no answer came.
  assert.equal(lossFor('store_unavailable', { route: 'listJobs' }), 'server_unreachable')
  // The server sent this one.
  assert.equal(lossFor('store_unavailable'), 'store_unavailable')
  assert.equal(lossFor('timeout', { route: 'listJobs' }), 'timeout')
  assert.equal(lossFor('draining'), 'draining')
  for (const code of ['not_found', 'forbidden', 'unauthorized'] as const)
    assert.equal(lossFor(code), undefined)
  assert.equal(lossOf(new Error('It failed.')), undefined)
})
