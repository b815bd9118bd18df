import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../src/core/errors.ts'
import type { Report, ReportAnswer } from '../../src/monitor/index.ts'
import { eventId } from '../../src/once/index.ts'
import { openStand, place, type Stand } from './stand.ts'

let tasks = 0

/** Reports these subjects' states in the general form. */
function see(stand: Stand, states: Readonly<Record<string, unknown>>): Promise<ReportAnswer> {
  const subjects = Object.entries(states).map(([subject, state]) => ({ subject, state }))
  const taskId = `general ${++tasks}`
  return stand.monitor.report({ taskId, source: 'gym', observedAt: stand.now, subjects })
}

const isInvalid = (error: unknown) => isSignalboxError(error, 'invalid_argument')

test('a report of the general form names its subjects in the answer', async () => {
  await using stand = await openStand()
  await stand.subscribe()
  assert.deepEqual((await see(stand, { a: 1 })).changes, [{ subject: 'a', from: null, to: 1, reason: 'new' }])
  const answer = await see(stand, { a: 2, b: undefined })
  assert.deepEqual(answer.changes, [{ subject: 'a', from: 1, to: 2, reason: 'changed' }])
  assert.deepEqual(
    answer.failed.map(({ subject, error }) => [subject, error.code]),
    [['b', 'invalid_argument']],
  )
  assert.deepEqual(await stand.send(), ['a 1→2'])
})

test('records show a subject in the form in which it was reported', async () => {
  await using stand = await openStand()
  await stand.subscribe({ notifyNew: true })
  await see(stand, { court: 'free' })
  await stand.see({ court: 'full' })
  const { monitor } = stand
  const forms = [
    { source: 'gym', subject: 'court' },
    { ...place, venueId: 'court' },
  ]
  const subjects = (await monitor.subjects()).items
  assert.deepEqual(
    subjects.map(({ state, observedAt, changedAt, ...shown }) => shown),
    forms,
  )
  for (const [index, form] of forms.entries()) {
    const { present, windows, decisions, cursor, ...shown } = await monitor.explain(form as (typeof forms)[0])
    assert.deepEqual(shown, form)
    assert.equal(present?.state, ['free', 'full'][index])
    assert.equal(decisions.length, 1)
    assert.equal((await monitor.decisions(form)).items.length, 1)
    assert.equal((await monitor.notifications(form)).items.length, 1)
  }
})

test('pages of subjects continue after a subject of either form', async () => {
  await using stand = await openStand()
  await see(stand, { a: 1, b: 2 })
  await stand.see({ a: 3 })
  const names: (string | undefined)[] = []
  for (let cursor: string | null = null; ; ) {
    const page: Awaited<ReturnType<typeof stand.monitor.subjects>> = await stand.monitor.subjects({
      limit: 1,
      cursor,
    })
    names.push(...page.items.map(({ subject, venueId }) => subject ?? venueId))
    cursor = page.cursor
    if (cursor === null) break
  }
  assert.deepEqual(names, ['a', 'b', 'a'])
})

test('a match by subject is for the general form, by venue for venues, by source for both', async () => {
  await using stand = await openStand()
  const matches = {
    general: { subject: 'a' },
    venue: { venueId: 'a' },
    slot: { timeSlot: place.timeSlot },
    source: { source: 'gym' },
  }
  for (const [name, match] of Object.entries(matches)) await stand.subscribe({ name, match, notifyNew: true })
  const notified = async () => {
    const { items } = await stand.monitor.notifications({ status: 'pending' })
    await stand.send()
    return items.map(({ subscription }) => subscription).sort()
  }
  await see(stand, { a: 1 })
  assert.deepEqual(await notified(), ['general', 'source'])
  await stand.see({ a: 1 })
  assert.deepEqual(await notified(), ['slot', 'source', 'venue'])
})

test('fields of both forms together are refused', async () => {
  await using stand = await openStand()
  const { monitor } = stand
  const general = { subjects: [{ subject: 'a', state: 1 }] }
  const report = { taskId: 't', source: 'gym', observedAt: stand.now, ...general }
  await assert.rejects(monitor.report({ ...report, timeSlot: '18:00' } as Report), isInvalid)
  await assert.rejects(monitor.report({ ...report, venues: [] } as unknown as Report), isInvalid)
  await assert.rejects(
    monitor.report({ ...report, subjects: undefined } as unknown as Report),
    (error) => isSignalboxError(error, 'invalid_argument') && /timeSlot/.test(error.message),
  )
  await assert.rejects(monitor.explain({ source: 'gym', subject: 'a', venueId: 'a' } as never), isInvalid)
  await assert.rejects(monitor.decisions({ source: 'gym', timeSlot: '18:00' }), isInvalid)
  await assert.rejects(stand.subscribe({ match: { subject: 'a', venueId: 'a' } }), isInvalid)
})

test('a subject and a venue of the same name are different events', () => {
  const change = { source: 'gym', from: 1, to: 2 }
  const ids = [
    eventId({ ...change, subject: 'a' }),
    eventId({ ...change, timeSlot: 'a', venueId: 'a' }),
    eventId({ ...change, timeSlot: '18:00', venueId: 'a' }),
  ]
  assert.equal(new Set(ids).size, 3)
  assert.throws(() => eventId({ ...change, subject: 'a', venueId: 'a' } as never), isInvalid)
})
