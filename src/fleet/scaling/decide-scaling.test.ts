import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decideScaling, type ScalingFacts } from './decide-scaling.ts'

const idle: ScalingFacts = {
  ...{ waiting: 0, running: 0, blocked: 0, oldestMs: null, arrivalPerSecond: 0, servicePerSecond: 0 },
  ...{ runMs: 2_000, isPaused: false, limits: null, slotsPerMember: 5 },
}
const decide = (facts: Partial<ScalingFacts>) => decideScaling({ ...idle, ...facts }, 60_000, 'workers')

test('without work, no worker is called for', () => {
  const { wanted, slots, reason } = decide({})
  assert.deepEqual([wanted, slots, reason], [0, 0, 'Nothing waits and nothing arrives.'])
  assert.equal(decide({ blocked: 7 }).wanted, 0, 'no worker can take a job that is blocked')
  assert.match(decide({ blocked: 7 }).reason, /7 more wait for others or for a lock/)
})

test('slots match the arrival rate and work off the waiting jobs in time', () => {
  const decided = decide({ waiting: 300, running: 4, oldestMs: 95_000, arrivalPerSecond: 4 })
  // 4 × 2 s, and 300 × 2 s in 60 s.
  assert.deepEqual([decided.slots, decided.wanted, decided.boundBy], [18, 4, null])
  assert.equal(
    decided.reason,
    '300 wait, the oldest for 95 s; 4 arrive each second and take 2 s: 8 slots for arrivals and 10 to work off the ' +
      'rest in 60 s. 18 slots are 4 workers of 5.',
  )
})

test('one waiting job is enough for a worker, and running jobs keep theirs', () => {
  assert.equal(decide({ waiting: 1, runMs: 5 }).wanted, 1)
  assert.equal(decide({ running: 11 }).wanted, 3)
})

test('there are never more slots than jobs', () => {
  assert.equal(decide({ waiting: 3, runMs: 3_600_000 }).slots, 3)
})

test('until an attempt has ended, each job has a slot', () => {
  const { slots, reason } = decide({ waiting: 12, running: 1, runMs: null, arrivalPerSecond: 3 })
  assert.equal(slots, 13)
  assert.match(reason, /no attempt ended lately/)
})

test('limits of the queue cap the number, the tighter limit first', () => {
  const busy = { waiting: 600, runMs: 6_000, slotsPerMember: 2 }
  assert.equal(decide(busy).slots, 60)
  const limits = (concurrency: number | null, count: number | null) => ({
    concurrency,
    rate: count === null ? null : { count, perMs: 60_000 },
    perKey: null,
  })
  const concurrent = decide({ ...busy, limits: limits(4, null) })
  assert.deepEqual([concurrent.slots, concurrent.wanted, concurrent.boundBy], [4, 2, 'concurrency'])
  // Thirty a minute of six seconds each use three slots.
  const rated = decide({ ...busy, limits: limits(4, 30) })
  assert.deepEqual([rated.slots, rated.boundBy], [3, 'rate'])
  assert.equal(decide({ ...busy, limits: limits(2, 30) }).boundBy, 'concurrency')
  assert.equal(decide({ ...busy, limits: limits(100, 6_000) }).boundBy, null)
})

test('a paused queue calls for no worker for its waiting jobs', () => {
  const { slots, wanted, boundBy, reason } = decide({ isPaused: true, waiting: 50, running: 2 })
  assert.deepEqual([slots, wanted, boundBy], [2, 1, 'paused'])
  assert.equal(reason, 'The queue is paused: 50 wait; 2 still run. 2 slots are 1 worker of 5.')
})

test('the reason uses the singular for counts of one', () => {
  const { reason } = decide({ waiting: 1, oldestMs: 2_000, runMs: null })
  assert.match(reason, /^1 waits, the oldest for 2 s; .* 1 slot is 1 worker of 5\.$/)
})
