/** Which notifications may be sent now, in which order, and how they end. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import type { Candidate } from '../candidates.ts'
import {
  aBatch,
  aJob,
  aNotification,
  anEnd,
  aStep,
  aSubject,
  begin,
  due,
  finish,
  hash,
  longMs,
  notification,
  notify,
  past,
  take,
  until,
} from './making.ts'

const [b, c, d] = [hash('B'), hash('C'), hash('D')]

export function sendingContract({ open }: Candidate): void {
  test('only the oldest unsettled notification of each subject may be sent', async () => {
    await using backend = await open()
    const other = aSubject('court-2')
    const [first, second, third] = await notify(
      backend,
      { stateHash: b },
      { ...other, stateHash: b },
      { stateHash: c },
    )
    const ref = await take(backend)
    assert.deepEqual(await due(backend, ref), [first, second])
    assert.deepEqual(await due(backend, ref, 1), [first])
    await begin(backend, ref, first!)
    await finish(backend, ref, second!)
    assert.deepEqual(
      await due(backend, ref),
      [first],
      'one being sent is unsettled, and keeps the next waiting',
    )
    await backend.monitor.proceed(ref, aStep({ ends: [anEnd(first!)] }))
    assert.deepEqual(await due(backend, ref), [third])
  })

  test('a notification that waits for a retry holds back its subject, and no other subject', async () => {
    await using backend = await open()
    const [first] = await notify(backend, { stateHash: b }, { stateHash: c })
    const ref = await take(backend)
    await finish(backend, ref, first!, { outcome: 'retry', afterMs: longMs, error: '{"message":"500"}' })
    const [free] = await notify(backend, { ...aSubject('court-2'), stateHash: b })
    const answer = (await backend.monitor.due(ref, 10))!
    assert.deepEqual(
      answer.items.map(({ id }) => id),
      [free],
    )
    const { dueAt, status, attempt, error } = await notification(backend, first!)
    assert.deepEqual(
      { status, attempt, error },
      { status: 'pending', attempt: 1, error: '{"message":"500"}' },
    )
    assert.equal(answer.nextAt, dueAt)
    assert.ok(dueAt > answer.now + longMs - 10_000)
  })

  test('a waiting notification does not hold back the same subject in another channel', async () => {
    await using backend = await open()
    const [, elsewhere] = await notify(
      backend,
      { stateHash: b },
      { stateHash: c, channel: hash('another'), subscriptionId: 'sub-2' },
    )
    assert.deepEqual(await due(backend, await take(backend, { channel: 'another' })), [elsewhere])
  })

  test('a delayed notification is due at its time, and not before', async () => {
    await using backend = await open()
    const [id] = await notify(backend, { delayMs: 300 })
    const ref = await take(backend)
    const { dueAt, createdAt } = await notification(backend, id!)
    assert.equal(dueAt, createdAt + 300)
    const early = (await backend.monitor.due(ref, 10))!
    if (early.now < dueAt) assert.deepEqual([early.items, early.nextAt], [[], dueAt])
    await past(backend, dueAt)
    const answer = (await backend.monitor.due(ref, 10))!
    assert.deepEqual([answer.items.map((one) => one.id), answer.nextAt], [[id], null])
  })

  test('a notification that a dead sender was sending is due again, and marked as a possible repeat', async () => {
    await using backend = await open()
    const [id] = await notify(backend, {})
    const dead = await take(backend, { leaseMs: 1_000 })
    const step = aStep({ leaseMs: 1, begin: [{ id: id!, repeat: false }] })
    assert.equal(await backend.monitor.proceed(dead, step), true)
    await until('the lease runs out', async () => !(await backend.monitor.due(dead, 1)))

    const ref = await take(backend)
    assert.deepEqual(await due(backend, ref), [id])
    const { items } = (await backend.monitor.due(ref, 1))!
    assert.equal(items[0]?.status, 'sending')
    await backend.monitor.proceed(ref, aStep({ begin: [{ id: id!, repeat: true }] }))
    const { attempt, possibleRepeat } = await notification(backend, id!)
    assert.deepEqual({ attempt, possibleRepeat }, { attempt: 2, possibleRepeat: true })
    await finish(backend, ref, id!)
    assert.equal((await notification(backend, id!)).possibleRepeat, true, 'once marked, it stays so')
  })

  test('each end is written with its time, error and shared message; a free retry counts no attempt', async () => {
    await using backend = await open()
    const courts = ['1', '2', '3', '4', '5'].map((name) => aSubject(name))
    const [sent, dead, held, cancelled, free] = await notify(backend, ...courts)
    const ref = await take(backend)
    await begin(backend, ref, ...[sent, dead, held, cancelled, free].map((id) => id!))
    const error = '{"message":"refused","code":"310000"}'
    const digestId = createId()
    const ends = [
      anEnd(sent!, { digestId }),
      anEnd(dead!, { outcome: 'dead', error }),
      anEnd(held!, { outcome: 'held', error }),
      anEnd(cancelled!, { outcome: 'cancelled' }),
      anEnd(free!, { outcome: 'retry', free: true }),
    ]
    assert.equal(await backend.monitor.proceed(ref, aStep({ ends })), true)
    const facts = async (id: string) => {
      const { status, attempt, error, digestId, finishedAt } = await notification(backend, id)
      return [status, attempt, error, digestId, finishedAt !== null]
    }
    assert.deepEqual(await facts(sent!), ['sent', 1, null, digestId, true])
    assert.deepEqual(await facts(dead!), ['dead', 1, error, null, true])
    assert.deepEqual(await facts(held!), ['held', 1, error, null, true])
    assert.deepEqual(await facts(cancelled!), ['cancelled', 1, null, null, true])
    assert.deepEqual(await facts(free!), ['pending', 0, null, null, false])
    assert.deepEqual(await due(backend, ref), [free])
  })

  test('a step changes neither settled notifications nor those of another channel', async () => {
    await using backend = await open()
    const [settled, foreign] = await notify(backend, {}, { channel: hash('another'), stateHash: d })
    const ref = await take(backend)
    await finish(backend, ref, settled!)
    const before = await notification(backend, settled!)
    const ends = [settled!, foreign!, createId()].map((id) => anEnd(id, { outcome: 'dead' }))
    const step = aStep({ ends, begin: [settled!, foreign!].map((id) => ({ id, repeat: true })) })
    assert.equal(await backend.monitor.proceed(ref, step), true)
    assert.deepEqual(await notification(backend, settled!), before)
    assert.equal((await notification(backend, foreign!)).status, 'pending')
  })

  test('a step ends a notification before it begins the same one again', async () => {
    await using backend = await open()
    const [id] = await notify(backend, {})
    const ref = await take(backend)
    await begin(backend, ref, id!)
    const ends = [anEnd(id!, { outcome: 'retry', afterMs: 0 })]
    await backend.monitor.proceed(ref, aStep({ ends, begin: [{ id: id!, repeat: false }] }))
    const { status, attempt } = await notification(backend, id!)
    assert.deepEqual({ status, attempt }, { status: 'sending', attempt: 2 })
  })

  test('a dead notification frees its event id; a sent one keeps it', async () => {
    await using backend = await open()
    const [lost, notified] = [hash('event 1'), hash('event 2')]
    const events = [lost, notified].map((key) => ({ key, keepMs: longMs }))
    const notifications = [
      aNotification({ eventId: lost }),
      aNotification({ ...aSubject('court-2'), eventId: notified }),
    ]
    await backend.monitor.write(aBatch({ events, notifications, jobs: [aJob()] }))
    const ref = await take(backend)
    await finish(backend, ref, notifications[0]!.id, { outcome: 'dead' })
    await finish(backend, ref, notifications[1]!.id)
    const again = await backend.monitor.write(aBatch({ events }))
    assert.deepEqual(again, { status: 'duplicate', events: [notified] })
  })
}
