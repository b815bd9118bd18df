import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type AlertFacts, alertDefaults, judgeAlerts, subjectOf } from './alert-rules.ts'

const now = 1_790_000_000_000
const minute = 60_000
const quiet: AlertFacts = {
  now,
  queues: [],
  workedQueues: new Set(['mail']),
  schedules: [],
  locks: [],
  nodes: [],
  failingChannels: [],
  storeMs: 3,
}
const none = { ready: 0, running: 0, dead: 0, approximate: false }
const line = { queue: 'mail', paused: false, ...none, oldestReadyAt: null }

function subjects(facts: Partial<AlertFacts>): readonly string[] {
  return judgeAlerts({ ...quiet, ...facts }, alertDefaults).map(subjectOf)
}

test('a fleet without problems has no alerts', () => {
  assert.deepEqual(subjects({}), [])
  const ready = { ...line, ready: 5, oldestReadyAt: now - minute }
  const nodes = [{ nodeId: 'n', status: 'ready' }]
  const schedules = [
    { name: 'a', paused: false, nextAt: now - minute },
    { name: 'b', paused: true, nextAt: now - 60 * minute },
    { name: 'c', paused: false, nextAt: null },
  ]
  const locks = [{ operation: 'pull', resource: 'r', waitsSince: now - minute }]
  assert.deepEqual(subjects({ queues: [ready], nodes, schedules, locks }), [])
})

test('each rule fires for its problem alone', () => {
  const behind = { ...line, ready: 5, oldestReadyAt: now - 6 * minute }
  assert.deepEqual(subjects({ queues: [{ ...line, dead: 3 }] }), ['dead-jobs mail'])
  assert.deepEqual(subjects({ queues: [behind] }), ['queue-behind mail'])
  assert.deepEqual(subjects({ queues: [{ ...behind, paused: true }] }), [])
  assert.deepEqual(subjects({ queues: [{ ...behind, queue: 'slow' }] }), ['no-worker slow'])
  assert.deepEqual(subjects({ queues: [{ ...behind, queue: 'slow', running: 1 }] }), ['queue-behind slow'])
  assert.deepEqual(subjects({ schedules: [{ name: 'report', paused: false, nextAt: now - 3 * minute }] }), [
    'schedule-missed report',
  ])
  assert.deepEqual(
    subjects({ locks: [{ operation: 'pull', resource: 'r', waitsSince: now - 11 * minute }] }),
    ['lock-waited pull r'],
  )
  assert.deepEqual(subjects({ nodes: [{ nodeId: 'n7', status: 'gone' }] }), ['node-lost n7'])
  assert.deepEqual(subjects({ failingChannels: ['team', 'team'] }), ['channel-failing team'])
  assert.deepEqual(subjects({ storeMs: 2_500 }), ['store-slow store'])
})

test('a new alert for dead jobs fires when their number is ten times as large', () => {
  const levels = [1, 9, 10, 99, 100, 12_345].map(
    (dead) => judgeAlerts({ ...quiet, queues: [{ ...line, dead }] }, alertDefaults)[0]!.level,
  )
  assert.deepEqual(levels, [1, 1, 10, 10, 100, 10_000])
})
