import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { WireWorker } from '../../../src/http/client/index.ts'
import { causeOf } from './queue-cause.ts'

const worker: WireWorker = {
  ...{ id: 'w', workerId: 'w', state: 'running', wanted: 'run', via: 'library', host: null, pid: null },
  ...{ queues: ['mail'], kinds: null, concurrency: 2, runningCount: 1, running: [], release: null },
  ...{ version: null, startedAt: 1, seenAt: 1, leaseEndsAt: 1 },
}
const queue = { running: 3, limits: { concurrency: 3 } }

test('a queue is behind because no worker lives, all are quiet, its limit is reached, or all are busy', () => {
  assert.deepEqual(causeOf([{ ...worker, state: 'gone' }], undefined), { kind: 'noWorker' })
  assert.deepEqual(causeOf([{ ...worker, state: 'quiet' }], undefined), { kind: 'allQuiet', count: 1 })
  assert.deepEqual(causeOf([worker], queue), { kind: 'atLimit', count: 3 })
  assert.deepEqual(causeOf([{ ...worker, runningCount: 2 }], undefined), { kind: 'allBusy', count: 1 })
  assert.deepEqual(causeOf([worker, { ...worker, runningCount: 2 }], { running: 2, limits: null }), {
    kind: 'worked',
    count: 2,
  })
})
