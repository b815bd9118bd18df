import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import {
  type Answer,
  decodeAll,
  encodeAll,
  encodeAnswerTo,
  encodeFailure,
  reviveError,
} from './writer-thread-message.ts'

function cross(text: string): Answer {
  const [answer] = decodeAll<Answer>(encodeAll([text]))
  return answer!
}

test('an error of ours crosses with its code, message, details and cause, and is one of ours again', () => {
  const disk = Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 10 })
  const error = new SignalboxError('store_unavailable', 'No disk.', { cause: disk, details: { path: 'é\n' } })
  const revived = reviveError(cross(encodeFailure(7, error))[2]!)
  assert.ok(revived instanceof SignalboxError)
  assert.deepEqual(
    [revived.code, revived.message, revived.details, revived.status],
    ['store_unavailable', 'No disk.', { path: 'é\n' }, 503],
  )
  const { message, errcode } = revived.cause as Error & { errcode: number }
  assert.deepEqual([message, errcode], ['disk I/O error', 10])
})

test('an error without a cause stays without one, and one of SQLite keeps its number', () => {
  const ours = reviveError(cross(encodeFailure(1, new SignalboxError('closed', 'Closed.')))[2]!)
  assert.equal('cause' in ours, false)
  const constraint = Object.assign(new Error('UNIQUE constraint failed'), {
    code: 'ERR_SQLITE_ERROR',
    errcode: 2067,
  })
  const theirs = reviveError(cross(encodeFailure(2, constraint))[2]!)
  assert.equal(theirs instanceof SignalboxError, false)
  assert.deepEqual(
    [theirs.message, (theirs as { code?: unknown }).code, (theirs as { errcode?: unknown }).errcode],
    ['UNIQUE constraint failed', 'ERR_SQLITE_ERROR', 2067],
  )
})

test('a thrown value that is not an Error still crosses as one', () => {
  assert.equal(reviveError(cross(encodeFailure(1, 'plain text'))[2]!).message, 'plain text')
})

test('undefined crosses as undefined, and null as null', () => {
  assert.equal(cross(encodeAnswerTo(1, undefined))[1], undefined)
  assert.equal(cross(encodeAnswerTo(2, null))[1], null)
  assert.deepEqual(cross(encodeAnswerTo(3, [{ a: '\u2028👩‍🚀\u0000' }]))[1], [{ a: '\u2028👩‍🚀\u0000' }])
})
