import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { openBackend } from '../../storage/open.ts'
import { createJobs } from '../api/create-jobs.ts'
import { defineJob } from '../api/define-job.ts'
import type { Jobs } from '../api/jobs-api.ts'
import { fireDue } from './schedule-runner.ts'
import type { ScheduleOptions } from './schedules.ts'

const monday = Date.parse('2026-11-16T00:00:00Z')
const hour = 3_600_000
const daily: ScheduleOptions = { cron: '0 9 * * *', timeZone: 'UTC', job: { kind: 'report' } }

interface Place extends AsyncDisposable {
  readonly jobs: Jobs
  readonly store: Awaited<ReturnType<typeof openBackend>>
  now: number
  /** Moves the clock there and runs what is due. */
  at(now: number): Promise<void>
  /** The slots of all jobs there are, in the order in which they were added. */
  slots(): Promise<(number | null)[]>
}

async function openPlace(): Promise<Place> {
  const clock = { now: monday }
  const store = await openBackend('memory:', { namespace: 'default', migrate: true, now: () => place.now })
  const { schedules, notifier } = store
  const jobs = createJobs({ store: store.jobs, schedules, notifier })
  const place: Place = {
    jobs,
    store,
    now: clock.now,
    async at(now) {
      place.now = now
      await fireDue({ schedules, notifier })
    },
    async slots() {
      const records = await store.jobs.list({ limit: 500 })
      return records.map(({ meta }) => (JSON.parse(meta!) as { slotAt: number | null }).slotAt).reverse()
    },
    async [Symbol.asyncDispose]() {
      await jobs[Symbol.asyncDispose]()
      await store.close()
    },
  }
  return place
}

test('a schedule shows its next and its last run', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  const made = await schedules.set('report', {
    ...daily,
    job: { kind: 'report', payload: { to: 'team' }, tags: ['nightly'] },
  })
  assert.equal(made.nextAt, monday + 9 * hour)
  assert.equal(made.lastSlotAt, null)
  assert.deepEqual(made.job.payload, { to: 'team' })
  await place.at(monday + 9 * hour - 1)
  assert.deepEqual(await place.slots(), [])
  await place.at(monday + 9 * hour + 5)
  assert.deepEqual(await place.slots(), [monday + 9 * hour])
  const { nextAt, lastSlotAt, lastFiredAt } = (await schedules.find('report'))!
  assert.deepEqual(
    [nextAt, lastSlotAt, lastFiredAt],
    [monday + 33 * hour, monday + 9 * hour, monday + 9 * hour + 5],
  )
  const [job] = (await place.jobs.list()).items
  assert.deepEqual([job!.kind, job!.payload, job!.tags], ['report', { to: 'team' }, ['nightly']])
})

test('setting a schedule again changes nothing, and a changed one keeps its last run', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  const rate: ScheduleOptions = { everyMs: '1h', job: { kind: 'tick' } }
  const first = await schedules.set('tick', rate)
  const version = (await place.store.schedules.find('tick'))!.version
  place.now += hour / 2
  assert.deepEqual(await schedules.set('tick', rate), first)
  assert.equal((await place.store.schedules.find('tick'))!.version, version)
  await place.at(monday + hour)
  // Another job, the same slots.
  const other = await schedules.set('tick', { ...rate, job: { kind: 'tock' } })
  assert.deepEqual([other.nextAt, other.lastSlotAt], [monday + 2 * hour, monday + hour])
  // Other slots, counted from now.
  place.now = monday + hour + 1
  const slower = await schedules.set('tick', { ...rate, everyMs: '2h' })
  assert.deepEqual([slower.nextAt, slower.lastSlotAt], [monday + 3 * hour + 1, monday + hour])
})

test('another end leaves the slots of a rate unchanged', async () => {
  await using place = await openPlace()
  const rate: ScheduleOptions = { everyMs: '1h', job: { kind: 'tick' } }
  await place.jobs.schedules.set('tick', rate)
  place.now += 1_000
  assert.equal(
    (await place.jobs.schedules.set('tick', { ...rate, endAt: monday + 5 * hour })).nextAt,
    monday + hour,
  )
  assert.equal((await place.jobs.schedules.set('tick', { ...rate, endAt: monday })).nextAt, null)
  assert.equal((await place.jobs.schedules.set('tick', rate)).nextAt, monday + hour)
})

test('a change of its job loses no slot that is due', async () => {
  await using place = await openPlace()
  await place.jobs.schedules.set('report', daily)
  place.now = monday + 10 * hour
  await place.jobs.schedules.set('report', { ...daily, job: { kind: 'other' } })
  await place.at(place.now)
  assert.deepEqual(await place.slots(), [monday + 9 * hour])
})

test('a change of its end loses no slot that is due before the end', async () => {
  await using place = await openPlace()
  await place.jobs.schedules.set('report', daily)
  place.now = monday + 10 * hour
  await place.jobs.schedules.set('report', { ...daily, endAt: monday + 100 * hour })
  await place.at(place.now)
  assert.deepEqual(await place.slots(), [monday + 9 * hour])
  place.now = monday + 34 * hour
  await place.jobs.schedules.set('report', { ...daily, endAt: monday + 32 * hour })
  await place.at(place.now)
  assert.deepEqual(await place.slots(), [monday + 9 * hour], 'that of the next day is after the end')
})

test('a fixed rate is counted from its start, however late it runs', async () => {
  await using place = await openPlace()
  const startAt = new Date(monday + 10_000)
  await place.jobs.schedules.set('tick', { everyMs: 60_000, startAt, catchUp: 'all', job: { kind: 'tick' } })
  await place.at(monday + 10_000)
  await place.at(monday + 70_999)
  await place.at(monday + 250_001)
  assert.deepEqual(
    await place.slots(),
    [10_000, 70_000, 130_000, 190_000, 250_000].map((ms) => monday + ms),
  )
})

test.each([
  { catchUp: 'one', came: 3 * 24 * hour, expected: [57] },
  { catchUp: 'all', came: 3 * 24 * hour, expected: [9, 33, 57] },
  { catchUp: 'none', came: 3 * 24 * hour, expected: [] },
  { catchUp: 'none', came: 57 * hour + 59_000, expected: [57] },
] as const)('missed runs without a scheduler: $catchUp at $came', async ({ catchUp, came, expected }) => {
  await using place = await openPlace()
  await place.jobs.schedules.set('report', { ...daily, catchUp })
  await place.at(monday + came)
  await place.at(monday + came)
  assert.deepEqual(
    await place.slots(),
    expected.map((hours) => monday + hours * hour),
  )
  assert.equal((await place.jobs.schedules.find('report'))!.nextAt, monday + 81 * hour)
})

test('of very many missed slots, the newest hundred run', async () => {
  await using place = await openPlace()
  await place.jobs.schedules.set('tick', { cron: '* * * * * *', catchUp: 'all', job: { kind: 'tick' } })
  const now = monday + 30 * 24 * hour
  await place.at(now)
  assert.deepEqual(
    await place.slots(),
    Array.from({ length: 100 }, (_, at) => now - (99 - at) * 1_000),
  )
})

test('a paused schedule runs nothing, and a resumed one does not make up for it', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  await schedules.set('report', { ...daily, catchUp: 'all' })
  const paused = await schedules.pause('report')
  assert.deepEqual([paused.paused, paused.nextAt], [true, null])
  await place.at(monday + 50 * hour)
  // A program that starts says what it always says, and does not overrule who paused it.
  assert.equal((await schedules.set('report', { ...daily, catchUp: 'all' })).paused, true)
  await place.at(monday + 51 * hour)
  assert.deepEqual(await place.slots(), [])
  assert.equal((await schedules.resume('report')).nextAt, monday + 57 * hour)
  await place.at(monday + 57 * hour)
  assert.deepEqual(await place.slots(), [monday + 57 * hour])
})

test('a forced run adds the job and moves no slot', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  await schedules.set('report', { ...daily, paused: true })
  const { id, duplicate } = await schedules.run('report')
  assert.equal(duplicate, false)
  assert.equal((await place.jobs.find(id))!.kind, 'report')
  await schedules.resume('report')
  const { nextAt, lastSlotAt, lastFiredAt } = (await schedules.find('report'))!
  assert.deepEqual([nextAt, lastSlotAt, lastFiredAt], [monday + 9 * hour, null, monday])
})

test('with a unique key a slot is skipped while the last run is live', async () => {
  await using place = await openPlace()
  await place.jobs.schedules.set('report', { ...daily, job: { kind: 'report', uniqueKey: 'report' } })
  await place.at(monday + 9 * hour)
  await place.at(monday + 33 * hour)
  assert.deepEqual(await place.slots(), [monday + 9 * hour])
  assert.equal((await place.jobs.schedules.find('report'))!.lastSlotAt, monday + 33 * hour)
})

test('a schedule runs nothing after its end', async () => {
  await using place = await openPlace()
  const endAt = monday + 33 * hour
  await place.jobs.schedules.set('report', { ...daily, endAt, catchUp: 'all' })
  await place.at(monday + 100 * hour)
  assert.deepEqual(await place.slots(), [monday + 9 * hour, endAt])
  assert.equal((await place.jobs.schedules.find('report'))!.nextAt, null)
})

test('of many concurrent runners of a schedule, one runs it', async () => {
  await using place = await openPlace()
  const { schedules, notifier } = place.store
  for (const name of ['a', 'b', 'c']) await place.jobs.schedules.set(name, { ...daily, job: { kind: name } })
  place.now = monday + 9 * hour
  await Promise.all(Array.from({ length: 8 }, () => fireDue({ schedules, notifier })))
  assert.equal((await place.slots()).length, 3)
})

test('a damaged schedule is paused and delays no other', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  await place.store.schedules.put({ name: 'bad', doc: '{', isPaused: false, nextAt: monday }, 0)
  await place.store.schedules.put(
    {
      name: 'worse',
      doc: '{"when":{"cron":"x"},"job":{"kind":"k","payload":"1"}}',
      isPaused: false,
      nextAt: monday,
    },
    0,
  )
  await schedules.set('report', daily)
  await place.at(monday + 9 * hour)
  assert.deepEqual(await place.slots(), [monday + 9 * hour])
  const { items } = await schedules.list()
  assert.deepEqual(
    items.map(({ name, paused }) => [name, paused]),
    [
      ['bad', true],
      ['report', false],
      ['worse', true],
    ],
  )
})

test('schedules are listed by name, page by page', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  for (const name of ['c', 'a', 'é', 'b']) await schedules.set(name, daily)
  const found: string[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<typeof schedules.list>> = await schedules.list({ limit: 2, cursor })
    found.push(...page.items.map(({ name }) => name))
    cursor = page.cursor
  } while (cursor !== null)
  assert.deepEqual(found, ['a', 'b', 'c', 'é'])
  assert.equal(await schedules.remove('a'), true)
  assert.equal(await schedules.remove('a'), false)
  assert.equal(await schedules.find('a'), undefined)
})

test.each([
  [{ cron: '0 0 30 2 *', job: { kind: 'k' } }, 'schedule.cron'],
  [{ cron: '0 9 * * *', timeZone: 'Nowhere/Land', job: { kind: 'k' } }, 'schedule.timeZone'],
  [{ everyMs: 0, job: { kind: 'k' } }, 'schedule.everyMs'],
  [{ everyMs: 'soon', job: { kind: 'k' } }, 'schedule.everyMs'],
  [{ everyMs: 1_000, cron: '* * * * *', job: { kind: 'k' } }, 'schedule.cron'],
  [{ job: { kind: 'k' } }, 'schedule.cron'],
  [{ everyMs: 1_000, timeZone: 'UTC', job: { kind: 'k' } }, 'schedule.timeZone'],
  [{ cron: '* * * * *', startAt: 1, job: { kind: 'k' } }, 'schedule.startAt'],
  [{ everyMs: 1_000, catchUp: 'some', job: { kind: 'k' } }, 'schedule.catchUp'],
  [{ everyMs: 1_000, paused: 1, job: { kind: 'k' } }, 'schedule.paused'],
  [{ everyMs: 1_000 }, 'schedule.job'],
  [{ everyMs: 1_000, job: { kind: '' } }, 'schedule.job.kind'],
  [{ everyMs: 1_000, job: { kind: 'k', delayMs: 5 } }, 'schedule.job.delayMs'],
  [{ everyMs: 1_000, job: { kind: 'k' }, tz: 'UTC' }, 'tz'],
])('%j is refused, and nothing is written', async (options, option) => {
  await using place = await openPlace()
  await assert.rejects(
    place.jobs.schedules.set('s', options as unknown as ScheduleOptions),
    (error) => isSignalboxError(error, 'invalid_argument') && error.details.option === option,
  )
  assert.equal(await place.jobs.schedules.find('s'), undefined)
})

test('the payload of a defined kind is checked when its schedule is set', async () => {
  await using place = await openPlace()
  const schema = {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value: unknown) =>
        typeof value === 'number' ? { value } : { issues: [{ message: 'must be a number' }] },
    },
  } as const
  const count = defineJob('count', { schema })
  await place.jobs.schedules.set('good', { everyMs: 1_000, job: count.job(5 as never) })
  await assert.rejects(
    place.jobs.schedules.set('bad', { everyMs: 1_000, job: count.job('five' as never) }),
    (error) => isSignalboxError(error, 'invalid_argument'),
  )
  assert.equal(await place.jobs.schedules.find('bad'), undefined)
})

test('an unknown schedule cannot be paused, resumed or run', async () => {
  await using place = await openPlace()
  const { schedules } = place.jobs
  for (const verb of ['pause', 'resume', 'run'] as const)
    await assert.rejects(schedules[verb]('none'), (error) => isSignalboxError(error, 'not_found'))
})
