import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../core/errors.ts'
import { openMemory } from '../../storage/memory/index.ts'
import type { JobStore } from '../job-store.ts'
import { JobWaits, waitForJob } from './job-waits.ts'

const minute = 60_000

/** Waits for jobs that have all ended. The test changes how they are read. */
async function endedJobs(change: (find: JobStore['find']) => JobStore['find']) {
  const backend = await openMemory({ namespace: 'ended', migrate: true })
  const { jobs } = backend
  const waits = new JobWaits({ look: async (ids) => ids.map(() => 'completed') })
  const store = { find: change((id) => jobs.find(id)) }
  return {
    jobs,
    wait: (id: string, timeoutMs: number, signal?: AbortSignal) =>
      waitForJob({ store, waits, passesSealed: false }, id, { timeoutMs, signal }),
    [Symbol.asyncDispose]: () => backend.close(),
  }
}

function anId(nth: number): string {
  return `01k9z3v8qe0m4t9wq3rb5c${String(nth).padStart(4, '0')}`
}

async function add(jobs: JobStore, ids: readonly string[]): Promise<void> {
  const job = { queue: 'default', kind: 'n', payload: '{}', priority: 0, uniqueKey: null }
  const limits = { maxAttempts: 1, backoff: null, timeoutMs: null, meta: null }
  await jobs.add(ids.map((id) => ({ id, ...job, ...limits, due: { delayMs: 0 }, dependsOn: null })))
}

test('a thousand ended jobs are read in turn, and each wait gets its job', async () => {
  let [reading, most] = [0, 0]
  await using stage = await endedJobs((find) => async (id) => {
    most = Math.max(most, ++reading)
    await new Promise(setImmediate)
    reading--
    return find(id)
  })
  const ids = Array.from({ length: 1_000 }, (_, nth) => anId(nth))
  await add(stage.jobs, ids)
  const answers = await Promise.all(ids.map((id) => stage.wait(id, minute)))
  assert.deepEqual(
    answers.map(({ job }) => job.id),
    ids,
  )
  assert.ok(most <= 50, `${most} at the same time`)
})

test('an ended job is read again while the store is away, until the wait times out', async () => {
  const failures = ['store_unavailable', 'timeout', 'store_unavailable'] as const
  let tries = 0
  await using stage = await endedJobs((find) => async (id) => {
    const code = failures[tries++]
    if (code !== undefined) throw new SignalboxError(code, 'away')
    return find(id)
  })
  const id = anId(0)
  await add(stage.jobs, [id])
  assert.equal((await stage.wait(id, minute)).job.id, id)
  assert.equal(tries, 4)

  tries = 0
  await assert.rejects(stage.wait(id, 300), { code: 'timeout' })
  const stop = new AbortController()
  tries = 0
  const stopped = stage.wait(id, minute, stop.signal)
  stop.abort(new Error('enough'))
  await assert.rejects(stopped, { message: 'enough' })
})

test('a permanent read error ends the wait at once', async () => {
  let tries = 0
  await using stage = await endedJobs(() => async () => {
    tries++
    throw new SignalboxError('unauthorized', 'The token was revoked.')
  })
  await assert.rejects(stage.wait(anId(0), minute), { code: 'unauthorized' })
  assert.equal(tries, 1)
})
