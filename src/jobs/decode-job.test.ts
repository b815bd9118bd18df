import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeClaimed, decodeJob } from './decode-job.ts'
import { decodeMeta, encodeMeta, parseMeta } from './job-facts.ts'
import type { ClaimedRecord } from './job-store.ts'
import { backoffDefaults, decodeBackoff } from './lifecycle.ts'

function aRecord(record: Partial<ClaimedRecord> = {}): ClaimedRecord {
  return {
    id: 'job-1',
    queue: 'default',
    kind: 'mail',
    payload: '{"to":"ada"}',
    priority: 0,
    uniqueKey: null,
    state: 'running',
    attempt: 1,
    maxAttempts: 5,
    handBackCount: 0,
    snoozeCount: 0,
    runAt: 1,
    createdAt: 1,
    startedAt: 2,
    finishedAt: null,
    workerId: 'w',
    backoff: null,
    timeoutMs: null,
    meta: null,
    result: null,
    error: null,
    cancelRequested: false,
    cancelIgnored: false,
    token: '1.0123456789abcdef',
    leaseEndsAt: 30_000,
    ...record,
  }
}

test('a record becomes a job with its values', () => {
  const job = decodeClaimed(aRecord({ result: '[1]', error: '{"message":"no"}', backoff: '{"baseMs":5}' }))
  assert.deepEqual(
    [job.payload, job.result, job.error, job.backoff, job.token, job.handBackCount],
    [{ to: 'ada' }, [1], { message: 'no' }, { ...backoffDefaults, baseMs: 5 }, '1.0123456789abcdef', 0],
  )
})

test('an unreadable payload is not run, and is shown with a reason', () => {
  for (const payload of ['', '{', 'undefined', '{"a":1}}']) {
    assert.throws(() => decodeClaimed(aRecord({ payload })), { code: 'undecodable' })
    const job = decodeJob(aRecord({ payload }))
    assert.deepEqual([job.payload, job.error?.code], [null, 'undecodable'])
  }
  const failed = decodeJob(aRecord({ payload: '{', error: '{"message":"its own"}' }))
  assert.equal(failed.error?.message, 'its own')
})

test('unreadable results and errors never throw', () => {
  const job = decodeJob(aRecord({ result: '{', error: 'plain words' }))
  assert.deepEqual([job.result, job.error], [null, { message: 'plain words' }])
  assert.deepEqual(decodeJob(aRecord({ error: '5' })).error, { message: '5' })
})

test('an unusable back-off becomes the default one: no wait is ever NaN', () => {
  for (const text of [
    '',
    '{',
    'null',
    '5',
    '[]',
    '{"baseMs":"x"}',
    '{"jitter":7}',
    '{"factor":null}',
    '{"base":1}',
  ])
    assert.deepEqual(decodeBackoff(text), backoffDefaults, text)
})

test('a job without meta fields has no meta text', () => {
  assert.equal(encodeMeta({}), null)
  assert.equal(encodeMeta({ tags: [] }), null)
  assert.deepEqual(parseMeta(null), {})
  assert.deepEqual(decodeMeta(null).tags, [])
})

test('tags are read as they were written, and unknown fields are kept', () => {
  assert.equal(encodeMeta({ tags: ['a', 'ä🚂'] }), '{"tags":["a","ä🚂"]}')
  const kept = '{"tags":["a"],"trace":{"id":"7"}}'
  assert.deepEqual(decodeMeta(kept).tags, ['a'])
  assert.equal(encodeMeta(parseMeta(kept)), kept)
  assert.equal(encodeMeta({ ...parseMeta(kept), tags: [] }), '{"trace":{"id":"7"}}')
})

test('a damaged meta text counts as empty', () => {
  for (const kept of ['', '{', 'null', '7', '"a"', '["a"]']) {
    assert.deepEqual(parseMeta(kept), {}, kept)
    assert.deepEqual(decodeMeta(kept).tags, [], kept)
  }
  assert.deepEqual(decodeMeta('{"tags":"a"}').tags, [])
  assert.deepEqual(decodeMeta('{"tags":["a",7,null,"b"]}').tags, ['a', 'b'])
})
