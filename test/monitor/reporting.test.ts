import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, SignalboxError } from '../../src/core/errors.ts'
import type { MonitorStore } from '../../src/monitor/index.ts'
import { minute, openStand, place, type Stand } from './stand.ts'

test('the first report is the baseline; the second notifies exactly the changes', async () => {
  await using stand = await openStand()
  await stand.subscribe()
  const first = await stand.see({ a: 1, b: 2 })
  assert.deepEqual(first, {
    status: 'processed',
    changes: [
      { venueId: 'a', from: null, to: 1, reason: 'new' },
      { venueId: 'b', from: null, to: 2, reason: 'new' },
    ],
    notified: 0,
    suppressed: [],
    failed: [],
  })
  const second = await stand.see({ a: 1, b: 3 })
  assert.deepEqual(second.changes, [{ venueId: 'b', from: 2, to: 3, reason: 'changed' }])
  assert.equal(second.notified, 1)
  assert.deepEqual(await stand.send(), ['b 2→3'])
})

test('the order of fields and ignored fields are no change', async () => {
  await using stand = await openStand({ ignore: ['seenAt', '/offer/id'] })
  await stand.subscribe()
  await stand.see(
    { a: { free: 1, price: 2, seenAt: 1, offer: { id: 'x', slots: 3 }, run: 1 } },
    { ignore: ['run'] },
  )
  const same = { offer: { slots: 3, id: 'y' }, price: 2, free: 1, seenAt: 2, run: 2 }
  assert.deepEqual((await stand.see({ a: same }, { ignore: ['run'] })).changes, [])
  const other = { ...same, offer: { slots: 4, id: 'y' } }
  assert.equal((await stand.see({ a: other }, { ignore: ['run'] })).notified, 1)
})

test('a venue listed twice with one state counts once; with two states it fails, and others proceed', async () => {
  await using stand = await openStand()
  const venues = [
    { venueId: 'a', state: { x: 1, y: 2 } },
    { venueId: 'b', state: 1 },
    { venueId: 'a', state: { y: 2, x: 1 } },
    { venueId: 'b', state: 2 },
    { venueId: 'c', state: 3 },
  ]
  const answer = await stand.see({}, { venues })
  assert.deepEqual(
    answer.changes.map(({ venueId }) => venueId),
    ['a', 'c'],
  )
  assert.deepEqual(
    answer.failed.map(({ venueId, error }) => [venueId, error.code]),
    [['b', 'invalid_argument']],
  )
})

test('an invalid state or venue is listed as failed, and the rest of the task is done', async () => {
  await using stand = await openStand()
  const trap = {
    get free(): number {
      throw new Error('a getter of the caller’s')
    },
  }
  const venues: unknown[] = [
    { venueId: 'large', state: 'x'.repeat(1_000_000) },
    { venueId: 'date', state: new Date() },
    { venueId: 'nan', state: Number.NaN },
    { venueId: 'missing' },
    { venueId: 'trap', state: trap },
    { venueId: '', state: 1 },
    { venueId: 'more', state: 1, extra: true },
    null,
    { venueId: 'good', state: null },
  ]
  const report = { taskId: 'task', venues: venues as never }
  const answer = await stand.see({}, report)
  assert.deepEqual(
    answer.failed.map(({ venueId, error }) => `${venueId} ${error.code}`),
    [
      'large too_large',
      ...['date', 'nan', 'missing', 'trap', '', 'more'].map((id) => `${id} invalid_argument`),
    ],
  )
  assert.deepEqual(answer.changes, [{ venueId: 'good', from: null, to: null, reason: 'new' }])
  assert.equal((await stand.see({}, report)).status, 'duplicate')
})

test('a report of more than ten thousand venues, or an invalid one, is refused as a whole', async () => {
  await using stand = await openStand()
  const venues = Array.from({ length: 10_001 }, (_, index) => ({ venueId: `v${index}`, state: 0 }))
  await assert.rejects(stand.see({}, { venues }), (error) => isSignalboxError(error, 'too_large'))
  for (const wrong of [
    { taskId: '' },
    { source: 'a\nb' },
    { observedAt: Number.NaN },
    { venues: {} as never },
    { tx: 1 } as never,
  ])
    await assert.rejects(stand.see({ a: 1 }, wrong), (error) => isSignalboxError(error, 'invalid_argument'))
  assert.equal((await stand.see({}, { venues: venues.slice(1) })).changes.length, 10_000)
})

test('a clock far ahead is not trusted: later reports are not stale', async () => {
  await using stand = await openStand()
  await stand.see({ a: 1 }, { observedAt: stand.now + 60 * minute })
  stand.pass(1)
  assert.equal((await stand.see({ a: 2 })).changes.length, 1)
  await stand.see({ a: 3 }, { observedAt: stand.now + minute })
  assert.deepEqual((await stand.see({ a: 4 })).suppressed, [{ venueId: 'a', reason: 'stale' }])
})

test('a task in progress is busy; a task whose reporter died is free after its lease', async () => {
  await using stand = await openStand()
  const ask = {
    space: 'monitor.task',
    key: 'task',
    leaseMs: 30_000,
    keepMs: 1,
    mode: 'at-least-once' as const,
  }
  await stand.backend.guards.claim([{ ...ask, fingerprint: null }])
  assert.equal((await stand.see({ a: 1 }, { taskId: 'task' })).status, 'busy')
  stand.pass(30_000)
  assert.equal((await stand.see({ a: 1 }, { taskId: 'task' })).status, 'processed')
  assert.equal((await stand.see({ a: 1 }, { taskId: 'task' })).status, 'duplicate')
  stand.pass(24 * 60 * minute)
  assert.equal(
    (await stand.see({ a: 1 }, { taskId: 'task' })).status,
    'processed',
    'a day later it is forgotten',
  )
  const { lock_acquired_count, lock_rejected_count } = stand.tally.stats()
  assert.deepEqual([lock_acquired_count, lock_rejected_count], [2, 1])
})

test('a batch that cannot be written is listed as failed, others stay, and the task may be reported again', async () => {
  let isBroken = true
  const wrap = (store: MonitorStore) =>
    overlay(store, {
      async write(batch) {
        if (isBroken && batch.subjects.some(({ name }) => name === 'v3'))
          throw new SignalboxError('store_unavailable', 'The store is away.')
        return store.write(batch)
      },
    })
  await using stand = await openStand({ batchSize: 2, wrap })
  const states = Object.fromEntries(Array.from({ length: 6 }, (_, index) => [`v${index}`, index]))
  const answer = await stand.see(states, { taskId: 'task' })
  assert.deepEqual(
    answer.failed.map(({ venueId, error }) => `${venueId} ${error.code}`),
    ['v2 store_unavailable', 'v3 store_unavailable'],
  )
  assert.equal(answer.changes.length, 4)
  isBroken = false
  const again = await stand.see(states, { taskId: 'task' })
  assert.deepEqual(
    again.changes.map(({ venueId }) => venueId),
    ['v2', 'v3'],
  )
})

test('with its store down a report throws, and sends no notification', async () => {
  let isDown = true
  const wrap = (store: MonitorStore) =>
    overlay(store, {
      async write(batch) {
        if (isDown) throw new SignalboxError('store_unavailable', 'The store is away.')
        return store.write(batch)
      },
    })
  await using stand = await openStand({ wrap })
  await stand.subscribe({ notifyNew: true })
  await assert.rejects(stand.see({ a: 1 }, { taskId: 'task' }), (error) =>
    isSignalboxError(error, 'store_unavailable'),
  )
  assert.deepEqual((await stand.monitor.notifications()).items, [])
  isDown = false
  assert.equal((await stand.see({ a: 1 }, { taskId: 'task' })).notified, 1, 'and the task is free at once')
})

test('a report that is overtaken repeatedly gives up with the error that the store was busy', async () => {
  let tries = 0
  const wrap = (store: MonitorStore) =>
    overlay(store, {
      async write() {
        tries++
        return { status: 'overtaken' }
      },
    })
  await using stand = await openStand({ wrap })
  await assert.rejects(stand.see({ a: 1 }), (error) => isSignalboxError(error, 'store_busy'))
  assert.ok(tries > 10)
})

test('a change whose event id is taken is recorded and not notified', async () => {
  await using stand = await openStand({ eventDedupTtlMs: '5m' })
  await stand.subscribe({ windowMs: 0 })
  await stand.see({ a: 'A', b: 'A' })
  await stand.see({ a: 'B' })
  await stand.see({ a: 'A' })
  const answer = await stand.see({ a: 'B', b: 'B' })
  assert.deepEqual(answer.suppressed, [{ venueId: 'a', reason: 'duplicate_event' }])
  assert.equal(answer.notified, 1, 'the others of the batch are notified')
  assert.deepEqual((await stand.send()).toSorted(), ['a A→B', 'a B→A', 'b A→B'])
  stand.pass(5 * minute)
  await stand.see({ a: 'A' })
  assert.equal((await stand.see({ a: 'B' })).notified, 1, 'after its time it is another event')
  const { unique_events, duplicate_events } = stand.tally.stats()
  assert.deepEqual([unique_events, duplicate_events], [5, 1])
})

test('a report of ten thousand venues is decided in batches, within seconds', async () => {
  await using stand = await openStand()
  await stand.subscribe()
  const saw = (changed: number) =>
    Array.from({ length: 10_000 }, (_, index) => ({
      venueId: `v${index}`,
      state: { free: index < changed ? 1 : 0 },
    }))
  await report(stand, saw(0))
  const answer = await report(stand, saw(100))
  assert.deepEqual([answer.changes.length, answer.notified, answer.failed.length], [100, 100, 0])
  const jobs = await stand.backend.jobs.list({ queue: 'signalbox.notify', limit: 100 })
  assert.equal(jobs.length, 1, 'one job for the one channel of the one batch that has changes')
})

function report(stand: Stand, venues: readonly { venueId: string; state: unknown }[]) {
  return stand.see({}, { ...place, venues })
}

/** The same store but for these. */
function overlay(store: MonitorStore, own: Partial<MonitorStore>): MonitorStore {
  return new Proxy(store, {
    get(target, name) {
      const method = own[name as keyof MonitorStore] ?? target[name as keyof MonitorStore]
      return method.bind(target)
    },
  })
}
