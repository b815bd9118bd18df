import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobsNotifier } from '../api/jobs-api.ts'
import type { JobState } from '../job.ts'
import { hintWaits, JobWaits } from './job-waits.ts'

const notifier: JobsNotifier = { wake: () => undefined, listen: () => () => undefined }
const minute = 60_000

/** A store whose states a test sets; it remembers each look. */
function aStore(options: { readonly isHeld?: boolean } = {}) {
  const states = new Map<string, JobState>()
  const looks: (readonly string[])[] = []
  const store = {
    states,
    looks,
    error: undefined as Error | undefined,
    hang: undefined as Promise<void> | undefined,
  }
  const waits = new JobWaits({
    ...options,
    notifier,
    async look(ids, signal) {
      looks.push(ids)
      if (store.error) throw store.error
      await store.hang
      if (options.isHeld)
        await new Promise<void>((resolve, reject) => {
          const timer = setTimeout(resolve, 20)
          signal.addEventListener('abort', () => {
            clearTimeout(timer)
            reject(signal.reason)
          })
        })
      return ids.map((id) => states.get(id))
    },
  })
  return { ...store, store, waits }
}

function ids(count: number): readonly string[] {
  return Array.from({ length: count }, (_, nth) => `job-${nth}`)
}

test('a thousand waits that start together share one read', async () => {
  const { states, looks, waits } = aStore()
  for (const id of ids(1_000)) states.set(id, 'completed')
  const answers = await Promise.all(ids(1_000).map((id) => waits.any([id], minute)))
  assert.deepEqual(
    looks.map((look) => look.length),
    [1_000],
  )
  assert.ok(answers.every((ended, nth) => ended.get(`job-${nth}`) === 'completed'))
  assert.equal(waits.size, 0)
})

test('a hint reads only its job, and the poll finds jobs without a hint', async () => {
  const { states, looks, waits } = aStore()
  for (const id of ids(3)) states.set(id, 'running')
  const all = ids(3).map((id) => waits.any([id], minute))
  while (looks.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  states.set('job-1', 'dead')
  hintWaits(notifier, ['job-1', 'a stranger'])
  assert.deepEqual(await all[1], new Map([['job-1', 'dead']]))
  assert.ok(looks.some((look) => look.length === 1 && look[0] === 'job-1'))
  states.set('job-0', 'cancelled')
  states.delete('job-2')
  assert.deepEqual(await all[0], new Map([['job-0', 'cancelled']]))
  assert.deepEqual(await all[2], new Map([['job-2', undefined]]))
})

test('a wait for several jobs ends with the first of them, for each waiter', async () => {
  const { states, waits } = aStore()
  for (const id of ids(2)) states.set(id, 'ready')
  const both = [waits.any(ids(2), minute), waits.any(['job-1'], minute)]
  states.set('job-1', 'completed')
  hintWaits(notifier, ['job-1'])
  for (const one of both) assert.deepEqual(await one, new Map([['job-1', 'completed']]))
})

test('a store that fails is asked again', async () => {
  const { states, store, looks, waits } = aStore()
  states.set('a', 'completed')
  store.error = new Error('away')
  const wait = waits.any(['a'], minute)
  while (looks.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  store.error = undefined
  assert.deepEqual(await wait, new Map([['a', 'completed']]))
})

test('a store that hangs delays no deadline and no abort', async () => {
  const { states, store, waits } = aStore()
  states.set('a', 'completed')
  store.hang = new Promise(() => undefined)
  const stop = new AbortController()
  const aborted = waits.any(['a'], minute, stop.signal)
  assert.deepEqual(await waits.any(['a'], 20), new Map())
  stop.abort(new Error('enough'))
  await assert.rejects(aborted, { message: 'enough' })
  await assert.rejects(waits.any(['a'], minute, stop.signal), { message: 'enough' })
  assert.equal(waits.size, 0)
})

test('releasing the waits answers all with nothing, closing refuses them', async () => {
  const { waits } = aStore()
  const one = waits.any(['a'], minute)
  waits.endAll()
  assert.deepEqual(await one, new Map())
  assert.deepEqual(await waits.any(['a'], minute), new Map())
  const other = aStore()
  other.states.set('a', 'running')
  const refused = other.waits.any(['a'], minute)
  other.waits.close()
  await assert.rejects(refused, { code: 'closed' })
  await assert.rejects(other.waits.any(['a'], minute), { code: 'closed' })
})

test('a delayed read starts again for a new wait, and without waits there is none', async () => {
  const { states, looks, waits } = aStore({ isHeld: true })
  for (const id of ids(2)) states.set(id, 'running')
  const first = waits.any(['job-0'], minute)
  while (looks.length === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  const second = waits.any(['job-1'], minute)
  for (const id of ids(2)) states.set(id, 'completed')
  assert.deepEqual(await first, new Map([['job-0', 'completed']]))
  assert.deepEqual(await second, new Map([['job-1', 'completed']]))
  assert.ok(looks.some((look) => look.length === 2))
  const count = looks.length
  await new Promise((resolve) => setTimeout(resolve, 100))
  assert.equal(looks.length, count)
})
