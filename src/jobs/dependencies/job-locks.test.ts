import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { DependencyStore, LockDependency } from './dependency-store.ts'
import type { JobLocks } from './job-locks.ts'
import { tendLock } from './job-locks.ts'

const lock: LockDependency = {
  ...{ jobId: 'j', operation: 'pull', resource: 'nginx', askNo: 3, fence: null },
  ...{ isTaken: false, state: 'waiting', dueInMs: 0 },
}

/** Tends one lock; answers what was left to do, and every step that was taken. */
async function tend(seen: Partial<LockDependency>, answers: Partial<JobLocks & DependencyStore> = {}) {
  const steps: string[] = []
  const step =
    <Answer>(name: string, answer: Answer) =>
    async (...args: unknown[]) => {
      steps.push([name, ...args.slice(1)].join(' '))
      return answer
    }
  const locks = {
    ask: step('ask', 'waits' as const),
    renew: step('renew', true),
    release: step('release', undefined),
    leave: step('leave', undefined),
    listen: () => () => undefined,
    ...answers,
  } as JobLocks
  const dependencies = {
    grant: step('grant', 'default' as string | undefined),
    blockAgain: step('blockAgain', true),
    fences: async () => [undefined],
    rest: step('rest', undefined),
    ...answers,
  } as unknown as DependencyStore
  const left = await tendLock(
    {
      ...{ dependencies, locks },
      onReady: (queue) => steps.push(`ready ${queue}`),
      onNext: (jobId) => steps.push(`next ${jobId}`),
      onLater: (jobId, inMs) => steps.push(`later ${jobId} ${inMs}`),
    },
    { ...lock, ...seen },
  )
  return [left, ...steps]
}

test('a waiting job requests its lock, and is ready once it is granted', async () => {
  assert.deepEqual(await tend({}), ['waits', 'ask'])
  assert.deepEqual(await tend({}, { ask: async () => ({ fence: 7 }) }), ['held', 'grant', 'ready default'])
})

test('a grant that came too late for the job goes to the next', async () => {
  const late = { ask: async () => ({ fence: 7 }), grant: async () => undefined }
  assert.deepEqual(await tend({}, late), ['waits', 'release 7 failure'])
})

test('a grant that another resolver gave the job is not released', async () => {
  const other = {
    ask: async () => ({ fence: 7 }),
    grant: async () => undefined,
    fences: async () => [{ askNo: 3, fence: 7 }],
  }
  assert.deepEqual(await tend({}, other), ['held'])
})

test('a request that another resolver has renewed keeps its position in the wait queue', async () => {
  assert.deepEqual(await tend({ state: 'ready' }, { blockAgain: async () => false }), ['waits', 'later j 0'])
})

test('a lock request that cannot succeed is replaced by another', async () => {
  assert.deepEqual(await tend({}, { ask: async () => 'over' as const }), [
    'waits',
    'blockAgain',
    'leave',
    'later j 0',
  ])
})

test('a job that is not due requests no lock', async () => {
  assert.deepEqual(await tend({ dueInMs: 500 }), ['waits', 'later j 500'])
})

test('the grant of a ready or running job is renewed', async () => {
  assert.deepEqual(await tend({ state: 'ready', fence: 7 }), ['held', 'renew 7'])
  assert.deepEqual(await tend({ state: 'running', fence: 7 }), ['held', 'renew 7'])
})

test('a grant from an earlier run is released once the job waits again', async () => {
  const taken = { fence: 7, isTaken: true }
  const back = ['waits', 'release 7 failure', 'blockAgain', 'later j 0']
  assert.deepEqual(await tend({ ...taken, state: 'ready' }), back)
  assert.deepEqual(await tend({ ...taken, state: 'running' }), ['held', 'renew 7'])
})

test('a lost grant is forgotten, and its ready job waits again', async () => {
  const lost = { renew: async () => false }
  assert.deepEqual(await tend({ state: 'ready', fence: 7 }, lost), ['waits', 'blockAgain', 'later j 0'])
  assert.deepEqual(await tend({ state: 'running', fence: 7 }, lost), ['waits', 'blockAgain', 'later j 0'])
  assert.deepEqual(await tend({ state: 'running' }), ['held'])
})

test('a back-off releases the turn and waits for another', async () => {
  const step = await tend({ state: 'scheduled', fence: 7, dueInMs: 900 })
  assert.deepEqual(step, ['waits', 'release 7 failure', 'blockAgain', 'later j 900'])
})

test('an end passes its outcome to the wait queue and wakes the next waiter', async () => {
  assert.deepEqual(await tend({ state: 'completed', fence: 7 }), ['over', 'release 7 success', 'rest'])
  for (const state of ['dead', 'cancelled', undefined] as const)
    assert.deepEqual(await tend({ state, fence: 7 }), ['over', 'release 7 failure', 'rest'])
  assert.deepEqual(await tend({ state: 'cancelled' }), ['over', 'leave', 'rest'])
  const next = await tend({ state: 'completed', fence: 7 }, { release: async () => 'k' })
  assert.deepEqual(next, ['over', 'next k', 'rest'])
})
