import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../core/ids.ts'
import { type Added, givenId, type JobRecord, type JobToAdd } from '../../../jobs/index.ts'
import { addSealed } from './given-ids.ts'

const sealed = (id: string): JobToAdd => ({ kind: 'mail', payload: { $sealed: `${id}:AAAA` } })
const record = (id: string) =>
  ({ id, kind: 'mail', queue: 'default', payload: JSON.stringify(sealed(id).payload) }) as JobRecord

/** An engine that refuses an id that it has, as most do, and another server beside it that adds `theirs` meanwhile. */
function engine(theirs: readonly string[] = []) {
  const kept = new Set<string>()
  let isFirst = true
  return {
    kept,
    find: async (id: string) => (kept.has(id) ? record(id) : undefined),
    addMany: async (jobs: readonly JobToAdd[]): Promise<readonly Added[]> => {
      if (isFirst) for (const id of theirs) kept.add(id)
      isFirst = false
      const ids = jobs.map((job) => job[givenId]!)
      if (ids.some((id) => kept.has(id))) throw new Error('duplicate key value violates unique constraint')
      for (const id of ids) kept.add(id)
      return ids.map((id) => ({ id, duplicate: false }))
    },
  }
}

test('a concurrent add of the same jobs by another server is not a failure', async () => {
  const [a, b] = [createId(), createId()]
  const raced = engine([a])
  const answer = await addSealed([sealed(a), sealed(b)], { ...raced, isKeyed: true })
  assert.deepEqual(answer, [
    { id: a, duplicate: false },
    { id: b, duplicate: false },
  ])
  assert.deepEqual([...raced.kept], [a, b])
})

test('other errors of the engine are passed on', async () => {
  const broken = { ...engine(), addMany: async () => Promise.reject(new Error('disk full')), isKeyed: true }
  await assert.rejects(addSealed([sealed(createId())], broken), /disk full/)
})

test('a key that knows the request answers it, also when some of its jobs are gone', async () => {
  const [a, b] = [createId(), createId()]
  const answered = [
    { id: a, duplicate: false },
    { id: 'holder', duplicate: true },
  ]
  const known = { ...engine(), addMany: async () => answered, isKeyed: true }
  known.kept.add(a)
  assert.deepEqual(await addSealed([sealed(a), sealed(b)], known), answered)
})

test('without a key, ids of which only some exist are refused', async () => {
  const [a, b] = [createId(), createId()]
  const half = { ...engine(), isKeyed: false }
  half.kept.add(a)
  await assert.rejects(addSealed([sealed(a), sealed(b)], half), { code: 'conflict' })
  assert.deepEqual([...half.kept], [a])
})
