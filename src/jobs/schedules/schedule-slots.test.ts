import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { createCron, newestByNext } from './schedule-slots.ts'

/** The next slots after that instant, in UTC. */
function slots(line: string, timeZone: string, after: string, count: number): string[] {
  const cron = createCron('schedule.cron', line, timeZone)
  const found: string[] = []
  for (let at: number | null = Date.parse(after); found.length < count; ) {
    at = cron.next(at)
    if (at === null) break
    found.push(new Date(at).toISOString().replace(/:00\.000Z$/, 'Z'))
  }
  return found
}

test('a cron line is read in its time zone', () => {
  assert.deepEqual(slots('0 9 * * 1-5', 'Asia/Shanghai', '2026-11-13T00:00:00Z', 3), [
    '2026-11-13T01:00Z',
    '2026-11-16T01:00Z',
    '2026-11-17T01:00Z',
  ])
  assert.deepEqual(slots('0 9 * * 1-5', 'UTC', '2026-11-13T09:00:00Z', 1), ['2026-11-16T09:00Z'])
  // Six fields begin with the second.
  assert.deepEqual(slots('15 0 9 * * *', 'UTC', '2026-11-13T09:00:14.999Z', 1), ['2026-11-13T09:00:15.000Z'])
})

const summerBegins = [
  {
    timeZone: 'Europe/Berlin',
    night: '2026-03-28T12:00:00Z',
    gapEnds: '2026-03-29T01:00Z',
    next: '2026-03-30T00:30Z',
  },
  {
    timeZone: 'America/New_York',
    night: '2026-03-07T12:00:00Z',
    gapEnds: '2026-03-08T07:00Z',
    next: '2026-03-09T06:30Z',
  },
]
test.each(summerBegins)(
  'a time of day in the missing hour of $timeZone runs at the first instant after it',
  (zone) => {
    assert.deepEqual(slots('30 2 * * *', zone.timeZone, zone.night, 2), [zone.gapEnds, zone.next])
    // Several of them are that one instant, and so is the slot that is there anyway.
    assert.deepEqual(slots('*/20 2,3 * * *', zone.timeZone, zone.night, 1), [zone.gapEnds])
    assert.equal(
      Date.parse(slots('*/20 2,3 * * *', zone.timeZone, zone.night, 2)[1]!) - Date.parse(zone.gapEnds),
      20 * 60_000,
    )
  },
)

test.each([
  {
    timeZone: 'Europe/Berlin',
    line: '30 2 * * *',
    from: '2026-10-24T12:00:00Z',
    once: '2026-10-25T00:30Z',
    next: '2026-10-26T01:30Z',
  },
  {
    timeZone: 'America/New_York',
    line: '30 1 * * *',
    from: '2026-10-31T12:00:00Z',
    once: '2026-11-01T05:30Z',
    next: '2026-11-02T06:30Z',
  },
])(
  'a time of day in the repeated hour of $timeZone runs once, the first time',
  ({ timeZone, line, from, once, next }) => {
    assert.deepEqual(slots(line, timeZone, from, 2), [once, next])
    // Also when it is asked in the middle of the second time.
    assert.deepEqual(slots(line, timeZone, new Date(Date.parse(once) + 45 * 60_000).toISOString(), 1), [next])
  },
)

test.each([
  { timeZone: 'Europe/Berlin', changes: ['2026-03-29T01:00Z', '2026-10-25T01:00Z'] },
  { timeZone: 'America/New_York', changes: ['2026-03-08T07:00Z', '2026-11-01T06:00Z'] },
])('an hourly cron line runs every hour in $timeZone, whatever clocks do', ({ timeZone, changes }) => {
  for (const change of changes) {
    const first = Date.parse(change) - 3 * 3_600_000
    const expected = Array.from({ length: 7 }, (_, hour) => first + hour * 3_600_000)
    const found = slots('0 * * * *', timeZone, new Date(first - 1).toISOString(), 7)
    assert.deepEqual(
      found.map((slot) => Date.parse(slot)),
      expected,
    )
    const quarters = slots('*/15 * * * *', timeZone, new Date(first - 1).toISOString(), 28)
    assert.deepEqual(
      quarters.map((slot) => Date.parse(slot)),
      Array.from({ length: 28 }, (_, at) => first + at * 900_000),
    )
  }
})

test('an hourly cron line has no extra run where an hour is missing', () => {
  const from = Date.parse('2026-03-29T00:00:00Z')
  const found = slots('30 * * * *', 'Europe/Berlin', new Date(from).toISOString(), 4)
  assert.deepEqual(found, [
    '2026-03-29T00:30Z',
    '2026-03-29T01:30Z',
    '2026-03-29T02:30Z',
    '2026-03-29T03:30Z',
  ])
})

test('an hourly cron line runs within the hour even if clocks change by half an hour', () => {
  // 02:00 becomes 02:30: what was meant for 02:15 runs an hour after 01:15.
  assert.deepEqual(slots('15 * * * *', 'Australia/Lord_Howe', '2026-10-03T14:00:00Z', 3), [
    '2026-10-03T14:45Z',
    '2026-10-03T15:45Z',
    '2026-10-03T16:15Z',
  ])
  // What clocks show behind the gap comes before what was in it, where it is earlier.
  assert.deepEqual(slots('15,40 * * * *', 'Australia/Lord_Howe', '2026-10-03T15:10:00Z', 3), [
    '2026-10-03T15:40Z',
    '2026-10-03T15:45Z',
    '2026-10-03T16:15Z',
  ])
})

test('a cron line of every second skips through the repeated hour without a search each time', () => {
  const first = Date.parse('2026-10-25T01:00:00Z')
  for (const line of ['* * * * * *', '* * 2,4 * * *']) {
    const cron = createCron('schedule.cron', line, 'Europe/Berlin')
    const found = Array.from({ length: 300 }, (_, at) => cron.next(first + at * 1_000))
    // The second one runs once for each wall time, so it is silent until four.
    const expected = found.map((_, at) =>
      line.startsWith('* * *') ? first + (at + 1) * 1_000 : Date.parse('2026-10-25T03:00:00Z'),
    )
    assert.deepEqual(found, expected)
  }
})

test('the newest slots are found without counting the many before them', () => {
  // Every second for a month, then nothing for half a year.
  const begin = 1_000_000_000_000
  const end = begin + 30 * 86_400_000
  let asked = 0
  const next = (after: number) => {
    asked++
    if (after < begin) return begin
    const slot = Math.floor(after / 1_000) * 1_000 + 1_000
    return slot < end ? slot : null
  }
  for (const max of [1, 100]) {
    asked = 0
    const found = newestByNext(next, begin - 1, end + 180 * 86_400_000, max)
    assert.deepEqual(
      found,
      Array.from({ length: max }, (_, at) => end - (max - at) * 1_000),
    )
    assert.ok(asked < 10_000, `${asked}`)
  }
  assert.deepEqual(newestByNext(next, begin - 1, begin + 1_000, 5), [begin, begin + 1_000])
  assert.deepEqual(newestByNext(next, end, end + 1, 5), [])
})

test('of many slots that are due, the newest are found at once', () => {
  const cron = createCron('schedule.cron', '* * * * * *', 'Europe/Berlin')
  const now = Date.parse('2026-11-15T12:00:00Z')
  const year = now - 365 * 86_400_000
  assert.deepEqual(cron.newest(year, now, 3), [now - 2_000, now - 1_000, now])
  const daily = createCron('schedule.cron', '0 9 * * *', 'UTC')
  assert.equal(daily.newest(year, now, 100).length, 100)
  assert.equal(daily.newest(year, now, 1_000).length, 365)
  assert.deepEqual(daily.newest(now - 1, now, 5), [])
})

test.each([
  ['0 0 30 2 *', 'day of the month', /no day that exists/],
  ['0 0 31 4,6,9,11 *', 'day of the month', /no day that exists/],
  ['61 * * * *', 'minute', /"61" as its minute/],
  ['0 24 * * *', 'hour', /"24" as its hour/],
  ['0 0 * 13 *', 'month', /"13" as its month/],
  ['0 0 * * noday', 'day of the week', /"noday" as its day of the week/],
  ['77 0 0 * * *', 'second', /"77" as its second/],
  ['* * *', undefined, /has 3 fields/],
  ['2027-01-01T00:00:00', undefined, /has one field/],
  ['@reboot', undefined, /has one field/],
  [5, undefined, /must be a cron line/],
])('the cron line %j is refused with the position of the mistake', (line, field, message) => {
  assert.throws(
    () => createCron('schedule.cron', line, 'UTC'),
    (error) =>
      isSignalboxError(error, 'invalid_argument') &&
      message.test(error.message) &&
      error.details.option === 'schedule.cron' &&
      error.details.field === field,
  )
})

test('an unknown time zone is refused', () => {
  assert.throws(
    () => createCron('schedule.cron', '0 0 * * *', 'Mars/Base'),
    (error) => isSignalboxError(error, 'invalid_argument') && error.details.option === 'schedule.timeZone',
  )
})
