import assert from 'node:assert/strict'
import { test, vi } from 'vitest'
import { openMemory } from '../../storage/memory/index.ts'
import { resolveNewJob } from '../api/add-options.ts'
import type { ClaimRequest, Verdict } from '../job-store.ts'
import { createDependentJobStore } from './dependent-job-store.ts'
import type { JobLocks } from './job-locks.ts'

const request: ClaimRequest = { queues: ['default'], kinds: null, workerId: 'w', limit: 10, leaseMs: 60_000 }
const lock = { operation: 'pull', resource: 'nginx' }

/** A job that was granted its lock and one without any, both ready, and what locks are asked. */
async function aStage(locks: Partial<JobLocks>) {
  const memory = await openMemory({ namespace: 'test', migrate: true })
  const unlocked: string[] = []
  const store = createDependentJobStore({
    ...{ store: memory.jobs, dependencies: memory.dependencies, locks: locks as JobLocks },
    onBlocked: () => undefined,
    onTouched: () => undefined,
    onUnlocked: (ids) => unlocked.push(...ids),
    onSlotFreed: () => undefined,
  })
  const locked = resolveNewJob('add', 'pull', null, { lock })
  const plain = resolveNewJob('add', 'plain', null, {})
  await store.add([locked, plain])
  await memory.dependencies.grant({ jobId: locked.id, askNo: 1, fence: 7 })
  return { memory, store, locked: locked.id, plain: plain.id, unlocked }
}

test('a job with a live grant is claimed with its fence, and its end releases the lock', async () => {
  const { store, locked, plain, unlocked } = await aStage({ renew: async () => true })
  const claimed = await store.claim(request)
  assert.deepEqual(
    claimed.map(({ id, fence }) => [id, fence]).sort(),
    [
      [locked, 7],
      [plain, undefined],
    ].sort(),
  )
  const { id, token } = claimed.find((job) => job.id === locked)!
  const ended = {
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    delayMs: 0,
    ranMs: null,
    result: null,
    error: null,
  }
  await store.settle([{ jobId: id, token, state: 'completed', ...ended }])
  assert.deepEqual(unlocked, [locked])
})

test('without locks other jobs are claimed, and a job with a lock is delayed without losing an attempt', async () => {
  const away = async () => {
    throw new Error('Redis is away')
  }
  const { store, locked, plain } = await aStage({ renew: away, release: away, leave: away })
  assert.deepEqual(
    (await store.claim(request)).map(({ id }) => id),
    [plain],
  )
  const job = (await store.find(locked))!
  assert.deepEqual([job.state, job.attempt, job.snoozeCount], ['scheduled', 0, 1])
  assert.ok(job.runAt > Date.now() + 1_000)
})

test('a job whose grant is lost is not claimed, and joins its wait queue again', async () => {
  const left: unknown[] = []
  const lost = {
    renew: async () => false,
    release: async (...args: unknown[]) => {
      left.push(args[1])
      return 'next'
    },
  }
  const { memory, store, locked, unlocked } = await aStage(lost as Partial<JobLocks>)
  assert.equal((await store.claim(request)).length, 1)
  assert.equal((await store.find(locked))?.state, 'waiting')
  assert.deepEqual(await memory.dependencies.fences([locked]), [{ askNo: 2, fence: null }])
  assert.deepEqual(left, [7])
  assert.deepEqual(unlocked, [locked, 'next'], 'the resolver is woken for both jobs')
})

test('a lease is not renewed for a job that lost its lock, and is renewed for others', async () => {
  const { memory, store, locked, plain } = await aStage({ renew: async () => true })
  const claimed = await store.claim(request)
  const leases = claimed.map(({ id, token }) => ({ jobId: id, token }))
  assert.equal((await store.renew(leases, 90_000)).length, 2)
  await memory.dependencies.blockAgain({ jobId: locked, askNo: 1, fence: 7 })
  const before = (await store.find(locked))!.leaseEndsAt
  assert.deepEqual(
    (await store.renew(leases, 600_000)).map(({ jobId }) => jobId),
    [plain],
  )
  assert.equal((await store.find(locked))!.leaseEndsAt, before)
})

test.each([
  ['ready', true],
  ['scheduled', true],
  ['completed', false],
] as const)(
  'a job that returns as %s releases its lock before it can be claimed: %s',
  async (state, letsGo) => {
    const steps: unknown[] = []
    const stage = await aStage({
      renew: async () => true,
      release: async (_, fence, outcome) => {
        steps.push([fence, outcome, (await stage.store.find(stage.locked))?.state])
        return undefined
      },
    })
    const claimed = await stage.store.claim(request)
    const verdicts = claimed.map(({ id, token }) => ({
      ...{
        jobId: id,
        token,
        state,
        attempt: 0,
        handBackCount: 1,
        snoozeCount: 0,
        delayMs: 0,
        ranMs: null,
        result: null,
        error: null,
      },
    }))
    assert.deepEqual(await stage.store.settle(verdicts), [true, true])
    assert.deepEqual(steps, letsGo ? [[7, 'failure', 'running']] : [])
  },
)

test('a job claimed elsewhere and handed back here also releases its lock, if the lease was its own', async () => {
  const released: number[] = []
  const { memory, store, locked } = await aStage({
    release: async (_, fence) => {
      released.push(fence)
      return undefined
    },
  })
  const { id, token } = (await memory.jobs.claim(request)).find((job) => job.id === locked)!
  const verdict: Verdict = {
    ...{ jobId: id, token, attempt: 0, handBackCount: 1, snoozeCount: 0, state: 'ready' as const },
    ...{ delayMs: 0, ranMs: null, result: null, error: null },
  }
  assert.deepEqual(await store.settle([{ ...verdict, token: `${token}0` }]), [false])
  assert.deepEqual(released, [])
  assert.deepEqual(await store.settle([verdict]), [true])
  assert.deepEqual(released, [7])

  // Said again, because its answer was lost, it gets the first answer; by then the job may be in other hands.
  await memory.jobs.claim(request)
  vi.spyOn(memory.jobs, 'settle').mockResolvedValue([true])
  assert.deepEqual(await store.settle([verdict]), [true])
  assert.deepEqual(released, [7])
})

test('a job that is lost with its worker is not claimed with its old fence', async () => {
  const { memory, store, locked } = await aStage({ renew: async () => true, release: async () => undefined })
  // More asks behind it than attempts, as after an operator's retry.
  for (const askNo of [1, 2, 3]) await memory.dependencies.blockAgain({ jobId: locked, askNo })
  await memory.dependencies.grant({ jobId: locked, askNo: 4, fence: 9 })
  const fencesOf = async () =>
    (await store.claim({ ...request, leaseMs: 50 })).flatMap(({ fence }) => fence ?? [])
  assert.deepEqual(await fencesOf(), [9])
  await vi.waitFor(async () => assert.equal((await store.find(locked))?.state, 'ready'), 10_000)
  assert.deepEqual(await fencesOf(), [])
  assert.deepEqual(await memory.dependencies.fences([locked]), [{ askNo: 5, fence: null }])
})
