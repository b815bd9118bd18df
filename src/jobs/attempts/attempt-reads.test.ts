import assert from 'node:assert/strict'
import { test } from 'vitest'
import { countSome } from './attempt-reads.ts'
import type { AttemptStore, UncountedAttempt } from './attempt-store.ts'

const attempt: UncountedAttempt = {
  ...{ jobId: 'a', number: 1, attempt: 1, queue: 'mail', kind: 'welcome', outcome: 'lost', workerId: 'w' },
  ...{ release: null, startedAt: 1, endedAt: 2, error: '{"message":"lost"}', isUnseenEnd: true },
}

test('the process that counts a lost attempt counts the death of its job, and no other process does', async () => {
  const attempts = [attempt, { ...attempt, jobId: 'b', isUnseenEnd: false }, { ...attempt, jobId: 'c' }]
  const store: Pick<AttemptStore, 'uncounted' | 'count'> = {
    uncounted: async () => attempts,
    // Another process has counted the last one meanwhile.
    count: async (all) => all.filter(({ jobId }) => jobId !== 'c'),
  }
  const deaths: string[] = []
  await countSome(store, {
    ended: ({ queue, kind }, outcome, ranMs) => void deaths.push(`${queue} ${kind} ${outcome} ${ranMs}`),
  })
  assert.deepEqual(deaths, ['mail welcome dead null'])
})
