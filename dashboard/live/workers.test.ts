import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { WireWorker } from '../../src/http/client/index.ts'
import { livingFirst, onPageClock } from './workers.ts'

const worker: WireWorker = {
  ...{ id: 'w', workerId: 'w', state: 'running', wanted: 'run', via: 'library', host: null, pid: null },
  ...{ queues: ['mail'], kinds: null, concurrency: 1, runningCount: 1, release: null, version: null },
  ...{ startedAt: 1_000, seenAt: 5_000, leaseEndsAt: 35_000 },
  running: [{ id: 'j', kind: 'mail', since: 4_000 }],
}

test("ages of workers use the clock of the store, whatever the page's clock says", () => {
  const shown = onPageClock(worker, 6_000, 106_000)
  assert.deepEqual([106_000 - shown.seenAt, 106_000 - shown.running[0]!.since], [1_000, 2_000])
})

test('live workers come first, and then the most recently gone ones', () => {
  const workers: readonly WireWorker[] = [
    { ...worker, id: 'old', state: 'gone', seenAt: 1 },
    { ...worker, id: 'b' },
    { ...worker, id: 'late', state: 'gone', seenAt: 2 },
    { ...worker, id: 'a', state: 'quiet' },
  ]
  assert.deepEqual(
    livingFirst(workers).map(({ id }) => id),
    ['a', 'b', 'late', 'old'],
  )
})
