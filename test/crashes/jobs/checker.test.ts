import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { JobRecord } from '../../../src/jobs/index.ts'
import type { Effect } from '../ground.ts'
import type { HistoryEvent, HistoryItem } from '../history.ts'
import { check, type Evidence } from './checker.ts'

const first = '1.00000000000000aa'
const second = '2.00000000000000bb'

let t = 0
function event(op: HistoryEvent['op'], item: Omit<HistoryItem, 'job'>, type: HistoryEvent['type'] = 'ok') {
  return { t: t++, proc: 'w', op, type, items: [{ job: 'j', ...item }] } satisfies HistoryEvent
}
const add = () => event('add', {})
const claim = (token: string, leaseEndsAt: number) =>
  event('claim', { token, leaseEndsAt, leaseMs: 1_000, attempt: 1, handBackCount: 0, snoozeCount: 0 })
const commit = (token: string) => event('transact', { token, state: 'completed' })
const effect = (token: string): Effect => ({ job: 'j', part: 'main', token, worker: 'w' })

function record(fields: Partial<JobRecord> = {}): JobRecord {
  const ended = {
    state: 'completed',
    attempt: 1,
    maxAttempts: 5,
    handBackCount: 0,
    snoozeCount: 0,
    finishedAt: 5,
    error: null,
  } as const
  return { id: 'j', kind: 'transaction', payload: '{}', ...ended, ...fields } as JobRecord
}

/** A job that was added, leased and committed once, with the given changes. */
function verdictOn(changed: Partial<Evidence>): readonly string[] {
  const { complaints } = check({
    events: [add(), claim(first, 2_000), commit(first)],
    records: [record()],
    effects: [effect(first)],
    endedEarlier: new Map(),
    neverAdded: [],
    ...changed,
  })
  return complaints.map((complaint) => complaint.split(':')[0]!)
}

test('the checker reports nothing about a job that went well', () => {
  assert.deepEqual(verdictOn({}), [])
})

test('the checker finds lost jobs, invented jobs, and leftover jobs', () => {
  assert.deepEqual(verdictOn({ events: [add()], records: [], effects: [] }), ['Q1'])
  assert.deepEqual(verdictOn({ records: [record({ state: 'running', finishedAt: null })], effects: [] }), [
    'Q1',
  ])
  assert.deepEqual(verdictOn({ events: [claim(first, 2_000), commit(first)] }), ['Q2'])
  assert.deepEqual(verdictOn({ neverAdded: ['j'] }), ['Q2'])
})

test('the checker finds effects that are missing, doubled, or of an incomplete job', () => {
  assert.deepEqual(verdictOn({ effects: [] }), ['Q3'])
  assert.deepEqual(verdictOn({ effects: [effect(first), effect(first)] }), ['Q3'])
  const dead = record({ state: 'dead', attempt: 5, error: '{}' })
  assert.deepEqual(verdictOn({ records: [dead] }), ['Q3'])
})

test('the checker finds two ends, overlapping leases, and a lease after the commit', () => {
  const twice = [add(), claim(first, 2_000), commit(first), commit(first)]
  assert.deepEqual(verdictOn({ events: twice }), ['Q4'])
  const overlap = [add(), claim(first, 2_000), claim(second, 2_500), commit(second)]
  const two = { records: [record({ attempt: 2 })], effects: [effect(second)] }
  assert.deepEqual(verdictOn({ events: overlap, ...two }), ['Q5'])
  const renewed = [add(), claim(first, 2_000), event('renew', { token: first, leaseEndsAt: 3_000 })]
  const taken = [...renewed, claim(second, 3_500), commit(second)]
  assert.deepEqual(verdictOn({ events: taken, ...two }), ['Q5'])
  const again = [add(), claim(first, 2_000), commit(first), claim(second, 4_000)]
  assert.deepEqual(verdictOn({ events: again, records: [record({ attempt: 2 })] }), ['Q13'])
})

test('the checker finds attempts that were not counted, and ended jobs that changed', () => {
  const crashed = [add(), claim(first, 2_000), claim(second, 4_000), commit(second)]
  assert.deepEqual(verdictOn({ events: crashed, effects: [effect(second)] }), ['Q6'])
  assert.deepEqual(verdictOn({ records: [record({ attempt: 2 })], everyGrantSeen: true }), ['Q6'])
  const early = record({ state: 'dead', attempt: 3, error: '{}' })
  assert.deepEqual(verdictOn({ records: [early], effects: [] }), ['Q6'])
  assert.deepEqual(verdictOn({ endedEarlier: new Map([['j', record({ state: 'dead' })]]) }), ['Q11'])
})
