import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, type SignalboxError } from '../../core/errors.ts'
import { resolveNewJob } from '../api/add-options.ts'
import { resolveRefs } from './list-references.ts'

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

test('refs become the ids of their jobs, and what is no ref stays the id it is', () => {
  const { records, resolved } = resolve([['a'], [undefined, 'a', 'an-id'], ['b', 'b2'], ['b2']])
  assert.deepEqual(
    resolved.map(({ dependsOn }) => dependsOn?.jobs ?? []),
    [[], [records[0]!.id, 'an-id'], [records[3]!.id], []],
  )
})

test('a ring is refused, and told by its names', () => {
  const error = refusal([
    ['a', 'c'],
    ['b', 'a'],
    ['c', 'b'],
    ['d', 'a'],
  ])
  assert.match(error.message, /"a" waits for "c" waits for "b" waits for "a"/)
  assert.deepEqual(error.details.ring, [0, 2, 1, 0])
})

test('a job that waits for itself is a ring of one', () => {
  assert.match(refusal([['a', 'a']]).message, /"a" waits for "a"/)
})

test('jobs that share a unique key are one, and a ring through them is seen', () => {
  const record = (options: object) => resolveNewJob('job', 'k', null, options)
  const list = [record({ uniqueKey: 'u', after: 'b' }), record({ after: 'c' }), record({ uniqueKey: 'u' })]
  assert.throws(() => resolveRefs('addMany', ['a', 'b', 'c'], list), /goes round in a ring/)
  const other = [record({ uniqueKey: 'u', after: 'b' }), record({ after: 'c' }), record({ uniqueKey: 'U' })]
  assert.equal(resolveRefs('addMany', ['a', 'b', 'c'], other).length, 3)
})

test('a ref used twice is refused', () => {
  assert.match(refusal([['a'], ['a']]).message, /addMany\[1\]\.ref is "a", as is addMany\[0\]\.ref/)
})

test('a chain of thousands is no trouble, and neither is a wide fan', () => {
  const chain = Array.from(
    { length: 5_000 },
    (_, at) => [`r${at}`, ...(at === 0 ? [] : [`r${at - 1}`])] as const,
  )
  assert.equal(resolve(chain).resolved.length, 5_000)
  const fan = [...Array.from({ length: 1_000 }, (_, at) => [`f${at}`] as const)]
  const sum = [undefined, ...fan.map(([ref]) => ref)] as const
  assert.equal(resolve([...fan, sum]).resolved.at(-1)?.dependsOn?.jobs.length, 1_000)
})
