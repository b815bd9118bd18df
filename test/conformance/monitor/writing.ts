/** Known subjects; a batch is written whole or not at all. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ReportBatch } from '../../../src/monitor/monitor-store.ts'
import type { Stores } from '../../../src/storage/backend.ts'
import type { Candidate } from '../candidates.ts'
import {
  aBatch,
  aDecision,
  aJob,
  aNotification,
  aSubject,
  aSubscription,
  aWrite,
  hash,
  known,
  longMs,
  past,
  present,
  shortMs,
} from './making.ts'

export function writingContract({ open }: Candidate): void {
  test('an unreported subject is unknown; a reported one is stored as it was written', async () => {
    await using backend = await open()
    const other = aSubject('court-2')
    const state = '{"free": 1,  "note":"\\u0000 ä 🎾"}'
    const write = aWrite({ state, observedAt: 1_234, memory: '{"changes":[1]}' })
    assert.deepEqual(await backend.monitor.write(aBatch({ subjects: [write] })), { status: 'written' })

    const answer = await backend.monitor.known({
      subjects: [other.subject, write.subject],
      throttles: [],
    })

    assert.equal(answer.subjects.length, 2)
    assert.equal(answer.subjects[0], undefined)
    const { changedAt, ...rest } = answer.subjects[1]!
    assert.deepEqual(rest, {
      version: 1,
      state,
      stateHash: write.stateHash,
      observedAt: 1_234,
      memory: '{"changes":[1]}',
      windows: [],
    })
    assert.ok(Math.abs(answer.now - changedAt) < 10_000, 'changedAt is by the store’s clock')
    assert.equal(answer.revision, 0)
  })

  test('a state that a batch leaves out stays as it was; changedAt moves only with a change', async () => {
    await using backend = await open()
    const { monitor } = backend
    const first = aWrite()
    await monitor.write(aBatch({ subjects: [first] }))
    const before = (await known(backend, first))!
    await past(backend, before.changedAt + 2)

    const seen = {
      ...first,
      version: 1,
      state: null,
      observedAt: 2_000,
      changed: false,
      memory: '{"seen":2}',
    }
    assert.equal((await monitor.write(aBatch({ subjects: [seen] }))).status, 'written')
    const same = (await known(backend, first))!
    assert.deepEqual(same, { ...before, version: 2, observedAt: 2_000, memory: '{"seen":2}' })

    const again = { ...seen, version: 2, observedAt: 2_500, sameMemory: true }
    assert.equal((await monitor.write(aBatch({ subjects: [again] }))).status, 'written')
    assert.deepEqual(await known(backend, first), { ...same, version: 3, observedAt: 2_500 })

    const next = aWrite({ version: 3, state: '"other"', observedAt: 3_000 })
    assert.equal((await monitor.write(aBatch({ subjects: [next] }))).status, 'written')
    const changed = (await known(backend, first))!
    assert.equal(changed.version, 4)
    assert.equal(changed.state, '"other"')
    assert.ok(changed.changedAt > before.changedAt)
  })

  test('a batch decided on an outdated version of one subject writes nothing', async () => {
    await using backend = await open()
    await present(backend)
    for (const version of [0, 2]) {
      const batch = full({ subjects: [aWrite(aSubject('court-2')), aWrite({ version, state: '"B"' })] })
      assert.deepEqual(await backend.monitor.write(batch), { status: 'overtaken' })
      await nothingOf(backend, batch)
    }
    const gone = full({ subjects: [aWrite({ ...aSubject('court-3'), version: 1 })] })
    assert.deepEqual(await backend.monitor.write(gone), { status: 'overtaken' })
    await nothingOf(backend, gone)
    assert.equal((await known(backend, aSubject()))?.version, 1)
  })

  test('a batch decided by outdated rules writes nothing', async () => {
    await using backend = await open()
    await backend.monitor.subscribe(aSubscription())
    const batch = full({ subjects: [aWrite(aSubject('court-2'))] })

    assert.deepEqual(await backend.monitor.write(batch), { status: 'overtaken' })

    await nothingOf(backend, batch)
    assert.deepEqual(await backend.monitor.write({ ...batch, revision: 1 }), { status: 'written' })
  })

  test('a batch with a taken event id is refused and writes nothing; the answer names the id', async () => {
    await using backend = await open()
    const [taken, free] = [hash('event 1'), hash('event 2')]
    const claimed = aBatch({ events: [{ key: taken, keepMs: longMs }] })
    assert.deepEqual(await backend.monitor.write(claimed), { status: 'written' })

    const events = [
      { key: free, keepMs: longMs },
      { key: taken, keepMs: longMs },
    ]
    const batch = full({ subjects: [aWrite(aSubject('court-2'))], events })
    assert.deepEqual(await backend.monitor.write(batch), { status: 'duplicate', events: [taken] })
    await nothingOf(backend, batch)

    const without = { ...batch, events: [{ key: free, keepMs: longMs }] }
    assert.deepEqual(
      await backend.monitor.write(without),
      { status: 'written' },
      'the other id was left free',
    )
  })

  test('an event id is taken for its retention time and no longer', async () => {
    await using backend = await open()
    const batch = aBatch({ events: [{ key: hash('event'), keepMs: shortMs }] })
    assert.equal((await backend.monitor.write(batch)).status, 'written')
    const { now } = await backend.monitor.known({ subjects: [], throttles: [] })
    await past(backend, now + shortMs)
    assert.equal((await backend.monitor.write(batch)).status, 'written')
  })

  test('a batch is written whole, its jobs included', async () => {
    await using backend = await open()
    const batch = full({ subjects: [aWrite(), aWrite(aSubject('court-2'))] })

    assert.deepEqual(await backend.monitor.write(batch), { status: 'written' })

    const [decision] = batch.decisions
    const [kept] = await backend.monitor.decisions({ limit: 10 })
    const { decidedAt, ...rest } = kept!
    assert.deepEqual(rest, decision)
    assert.ok(decidedAt > 0)
    const { delayMs, ...notification } = batch.notifications[0]!
    const { dueAt, createdAt, ...record } = (await backend.monitor.notification(notification.id))!
    assert.deepEqual(record, {
      ...notification,
      status: 'pending',
      attempt: 0,
      finishedAt: null,
      error: null,
      possibleRepeat: false,
      digestId: null,
    })
    assert.equal(dueAt, createdAt + delayMs)
    assert.equal((await backend.jobs.find(batch.jobs[0]!.id))?.queue, 'signalbox.notify')
    assert.equal((await known(backend, aSubject('court-2')))?.version, 1)
    assert.equal((await known(backend, aSubject()))?.windows[0]?.status, 'pending')
  })
}

/** A batch with one item of each kind. */
function full(batch: Partial<ReportBatch>): ReportBatch {
  const notification = aNotification({ delayMs: 5_000 })
  const { subject, subscriptionId, stateHash, id } = notification
  return aBatch({
    decisions: [aDecision({ eventId: hash('event') })],
    notifications: [notification],
    reservations: [{ subject, subscriptionId, stateHash, notificationId: id }],
    jobs: [aJob({ queue: 'signalbox.notify', kind: 'send' })],
    ...batch,
  })
}

/** Fails if any part of the batch was written. */
async function nothingOf(stores: Stores, batch: ReportBatch): Promise<void> {
  assert.equal(await known(stores, aSubject('court-2')), undefined)
  assert.deepEqual((await known(stores, aSubject()))?.windows ?? [], [])
  assert.deepEqual(await stores.monitor.decisions({ limit: 10 }), [])
  assert.deepEqual(await stores.monitor.notifications({ limit: 10 }), [])
  assert.equal(await stores.jobs.find(batch.jobs[0]!.id), undefined)
}
