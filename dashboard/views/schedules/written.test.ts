import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { fieldOf, hasHidden, optionsOf, write } from './written.ts'

const schedule: WireSchedule = {
  name: 'sweep',
  cron: null,
  timeZone: null,
  everyMs: 600_000,
  startAt: 5_000,
  endAt: 9_000_000,
  catchUp: 'none',
  job: {
    kind: 'sweep',
    queue: 'ops',
    payload: { deep: [1] },
    priority: 3,
    uniqueKey: 'k',
    maxAttempts: 7,
    timeoutMs: 1_000,
    tags: ['a'],
    backoff: { baseMs: 500, factor: 3, jitter: 0, maxMs: 9_000 },
    limitKey: 'ops',
    lock: { operation: 'sweep', resource: 'disk' },
  },
  paused: true,
  nextAt: null,
  lastSlotAt: null,
  lastFiredAt: null,
  createdAt: 1,
}

test('an unchanged form describes the schedule as it is, including options without fields', () => {
  const written = write(schedule, 'Europe/Berlin')
  assert.equal(written.everyMs, '10m')
  assert.deepEqual(optionsOf(written, schedule), {
    everyMs: '10m',
    startAt: 5_000,
    endAt: 9_000_000,
    catchUp: 'none',
    job: schedule.job,
  })
})

test('a changed rate counts from now on, and a cron line has a time zone instead', () => {
  const written = write(schedule, 'Europe/Berlin')
  assert.ok(!('startAt' in optionsOf({ ...written, everyMs: '5000' }, schedule)))
  const { cron, timeZone, everyMs } = optionsOf({ ...written, by: 'cron', cron: ' 0 9 * * * ' }, schedule)
  assert.deepEqual([cron, timeZone, everyMs], ['0 9 * * *', 'Europe/Berlin', undefined])
})

test('empty fields are left to the server, and a payload that is not JSON is refused', () => {
  const written = { ...write(undefined, 'UTC'), name: 'a', cron: '* * * * *', kind: 'a' }
  assert.deepEqual(optionsOf(written, undefined).job, { kind: 'a' })
  assert.throws(() => optionsOf({ ...written, payload: '{' }, undefined), SyntaxError)
})

test('an error of the server about a field is shown at that field', () => {
  assert.equal(fieldOf('schedule.cron "61 * * * *" has "61" as its minute, which cannot be read.'), 'cron')
  assert.equal(fieldOf('schedule.job.queue is "signalbox.x"; names …'), 'queue')
  assert.equal(fieldOf('job.kind must be text of 1 to 191 characters'), 'kind')
  assert.equal(fieldOf('everyMs must be a whole number'), 'everyMs')
  assert.equal(fieldOf('Schedule "cron" kept changing meanwhile'), undefined)
})

test('the form recognises a payload that is not shown whole', () => {
  assert.ok(hasHidden({ card: { number: '[redacted]' } }))
  assert.ok(hasHidden({ $sealed: '01k9z3v8qe0m4t9wq3rb5c7xkd:AQ' }))
  assert.ok(!hasHidden({ note: 'plain' }))
})
