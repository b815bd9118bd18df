import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { resolveNewJob } from '../api/add-options.ts'
import { resolveLimits } from '../queue-limits.ts'
import { resolveDependencies } from './dependency.ts'

function refuses(what: () => unknown, option: string): void {
  assert.throws(what, (error) => {
    assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
    assert.ok(error.message.includes(option), error.message)
    return true
  })
}

test('a job that waits for nothing has no dependsOn', () => {
  for (const options of [{}, { after: null, lock: null }, { after: [] }])
    assert.equal(resolveNewJob('add', 'k', null, options).dependsOn ?? null, null)
})

test('what a job waits for is made whole: each dependency once, the policy kept beside it', () => {
  assert.deepEqual(resolveDependencies('add', { after: ['a', 'b', 'a'] }), {
    dependsOn: { jobs: ['a', 'b'], lock: null },
    meta: {},
  })
  const lock = { operation: 'pull', resource: 'nginx' }
  assert.deepEqual(resolveDependencies('add', { after: { jobs: 'a', onFailure: 'wait' }, lock }), {
    dependsOn: { jobs: ['a'], lock },
    meta: { lock, onFailure: 'wait' },
  })
})

test('what cannot be waited for is refused, and the message points at it', () => {
  const add = (options: object) => () => resolveNewJob('add', 'k', null, options)
  refuses(add({ after: 5 }), 'add.after')
  refuses(add({ after: '' }), 'add.after')
  refuses(add({ after: ['a', ''] }), 'add.after[1]')
  refuses(add({ after: Array(1_001).fill('a') }), 'add.after')
  refuses(add({ after: { jobs: ['a'], onFailure: 'shrug' } }), 'add.after.onFailure')
  refuses(add({ after: { job: 'a' } }), 'add.after')
  refuses(add({ lock: 'pull' }), 'add.lock')
  refuses(add({ lock: { operation: 'pull' } }), 'add.lock.resource')
  refuses(add({ lock: { operation: 'pull', resource: 'a', node: 'b' } }), 'add.lock')
  refuses(add({ limitKey: 'a\u0000' }), 'add.limitKey')
})

test('limits are made whole', () => {
  assert.deepEqual(resolveLimits('limit', { concurrency: 3 }), { concurrency: 3, rate: null, perKey: null })
  assert.deepEqual(
    resolveLimits('limit', { perKey: { rate: { count: 10, perMs: '1m' } }, concurrency: null }),
    { concurrency: null, rate: null, perKey: { concurrency: null, rate: { count: 10, perMs: 60_000 } } },
  )
})

test('limits of nothing, of 0 and of nonsense are refused', () => {
  const limit = (options: unknown) => () => resolveLimits('limit', options)
  for (const options of [{}, { perKey: null }, { concurrency: null }])
    refuses(limit(options), 'limits nothing')
  refuses(limit({ concurrency: 1, perKey: {} }), 'limit.perKey limits nothing')
  refuses(limit({ concurrency: 0 }), 'limit.concurrency')
  refuses(limit({ concurrency: 1.5 }), 'limit.concurrency')
  refuses(limit({ rate: { count: 0, perMs: 1_000 } }), 'limit.rate.count')
  refuses(limit({ rate: { count: 1, perMs: 0 } }), 'limit.rate.perMs')
  refuses(limit({ rate: { count: 1 } }), 'limit.rate.perMs')
  refuses(limit({ rate: 'fast' }), 'limit.rate')
  refuses(limit({ perKey: { concurrency: -1 } }), 'limit.perKey.concurrency')
  for (const options of [7, null, [], 'x']) refuses(limit(options), 'limit must be limits')
})
