import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, type SignalboxError } from '../../core/errors.ts'
import { resolveNewJob } from '../api/add-options.ts'
import { resolveLimits } from '../queue-limits.ts'
import { resolveDependencies, resolveRefs } from './dependencies.ts'

function refuses(what: () => unknown, option: string): void {
  assert.throws(what, (error) => {
    assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
    assert.ok(error.message.includes(option), error.message)
    return true
  })
}

test('a job without dependencies has no dependsOn', () => {
  for (const options of [{}, { after: null, lock: null }, { after: [] }])
    assert.equal(resolveNewJob('add', 'k', null, options).dependsOn ?? null, null)
})

test('dependencies are completed: each dependency once, with the policy', () => {
  assert.deepEqual(resolveDependencies('add', { after: ['a', 'b', 'a'] }), {
    dependsOn: { jobs: ['a', 'b'], lock: null },
    meta: { after: true },
  })
  const lock = { operation: 'pull', resource: 'nginx' }
  assert.deepEqual(resolveDependencies('add', { after: { jobs: 'a', onFailure: 'wait' }, lock }), {
    dependsOn: { jobs: ['a'], lock },
    meta: { after: true, lock, onFailure: 'wait' },
  })
})

test('an invalid dependency is refused, and the message points at it', () => {
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

test('limits are completed with their defaults', () => {
  assert.deepEqual(resolveLimits('limit', { concurrency: 3 }), { concurrency: 3, rate: null, perKey: null })
  assert.deepEqual(
    resolveLimits('limit', { perKey: { rate: { count: 10, perMs: '1m' } }, concurrency: null }),
    { concurrency: null, rate: null, perKey: { concurrency: null, rate: { count: 10, perMs: 60_000 } } },
  )
})

test('empty, zero and invalid limits are refused', () => {
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

/** Jobs by ref, each with the names it waits for. */
function resolve(list: readonly (readonly [ref: string | undefined, ...after: string[]])[]) {
  const records = list.map(([, ...after]) => resolveNewJob('job', 'k', null, { after }))
  const refs = list.map(([ref]) => ref)
  return { records, resolved: resolveRefs('addMany', refs, records) }
}

function refusal(list: Parameters<typeof resolve>[0]): SignalboxError {
  try {
    resolve(list)
  } catch (error) {
    assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
    return error
  }
  throw new Error('it was not refused')
}

test('refs become the ids of their jobs, and other ids stay as they are', () => {
  const { records, resolved } = resolve([['a'], [undefined, 'a', 'an-id'], ['b', 'b2'], ['b2']])
  assert.deepEqual(
    resolved.map(({ dependsOn }) => dependsOn?.jobs ?? []),
    [[], [records[0]!.id, 'an-id'], [records[3]!.id], []],
  )
})

test('a circle of dependencies is refused, and its names are listed', () => {
  const error = refusal([
    ['a', 'c'],
    ['b', 'a'],
    ['c', 'b'],
    ['d', 'a'],
  ])
  assert.match(error.message, /"a" waits for "c" waits for "b" waits for "a"/)
  assert.deepEqual(error.details.ring, [0, 2, 1, 0])
})

test('a job that depends on itself is a circle of one', () => {
  assert.match(refusal([['a', 'a']]).message, /"a" waits for "a"/)
})

test('jobs that share a unique key are one, and a circle through them is found', () => {
  const record = (options: object) => resolveNewJob('job', 'k', null, options)
  const list = [record({ uniqueKey: 'u', after: 'b' }), record({ after: 'c' }), record({ uniqueKey: 'u' })]
  assert.throws(() => resolveRefs('addMany', ['a', 'b', 'c'], list), /has a cycle/)
  const other = [record({ uniqueKey: 'u', after: 'b' }), record({ after: 'c' }), record({ uniqueKey: 'U' })]
  assert.equal(resolveRefs('addMany', ['a', 'b', 'c'], other).length, 3)
})

test('a ref used twice is refused', () => {
  assert.match(refusal([['a'], ['a']]).message, /addMany\[1\]\.ref is "a", as is addMany\[0\]\.ref/)
})

test('a chain of thousands works, and so does a wide fan', () => {
  const chain = Array.from(
    { length: 5_000 },
    (_, at) => [`r${at}`, ...(at === 0 ? [] : [`r${at - 1}`])] as const,
  )
  assert.equal(resolve(chain).resolved.length, 5_000)
  const fan = [...Array.from({ length: 1_000 }, (_, at) => [`f${at}`] as const)]
  const sum = [undefined, ...fan.map(([ref]) => ref)] as const
  assert.equal(resolve([...fan, sum]).resolved.at(-1)?.dependsOn?.jobs.length, 1_000)
})
