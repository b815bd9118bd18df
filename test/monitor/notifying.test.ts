import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createMonitor } from '../../src/monitor/index.ts'
import { minute, openStand, place } from './stand.ts'

test('a subscription matches exactly, one of several values, or by a prefix', async () => {
  await using stand = await openStand()
  const names = async () => {
    const { items } = await stand.monitor.notifications({ status: 'pending' })
    return items.map(({ subscription }) => subscription).sort()
  }
  await stand.subscribe({ name: 'all' })
  await stand.subscribe({ name: 'gym', match: { source: 'gym' } })
  await stand.subscribe({ name: 'pool', match: { source: 'pool' } })
  await stand.subscribe({ name: 'listed', match: { venueId: ['court-1', 'court-7'] } })
  await stand.subscribe({ name: 'courts', match: { source: 'gym', venueId: { prefix: 'court-' } } })
  await stand.subscribe({ name: 'morning', match: { timeSlot: { prefix: '08:' } } })
  await stand.see({ 'court-1': 'A', hall: 'A' })
  assert.equal((await stand.see({ 'court-1': 'B' })).notified, 4)
  assert.deepEqual(await names(), ['all', 'courts', 'gym', 'listed'])
  await stand.send()
  await stand.see({ hall: 'B' })
  assert.deepEqual(await names(), ['all', 'gym'])
})

test('the next report sees a subscription of another process, and notifies an ended one nothing', async () => {
  await using stand = await openStand()
  await stand.see({ a: 'A' })
  assert.deepEqual((await stand.see({ a: 'B' })).suppressed, [{ venueId: 'a', reason: 'no_subscriber' }])
  const record = {
    id: 'elsewhere',
    name: 'from elsewhere',
    match: '{}',
    channel: '{"type":"webhook","url":"https://example.com/","secret":"eight-or-more"}',
    options: '{}',
  }
  await stand.backend.monitor.subscribe(record)
  assert.equal((await stand.see({ a: 'C' })).notified, 1)
  await stand.backend.monitor.unsubscribe('elsewhere')
  assert.deepEqual((await stand.see({ a: 'D' })).suppressed, [{ venueId: 'a', reason: 'no_subscriber' }])
  assert.deepEqual(await stand.send(), [], 'what waited for it was cancelled')
})

test('a silence suppresses notifications; with reconcile they come when the silence ends', async () => {
  await using stand = await openStand()
  await stand.subscribe({ name: 'plain', match: { venueId: 'a' } })
  await stand.subscribe({ name: 'reconciled', match: { venueId: 'b' }, reconcile: true })
  await stand.see({ a: 'A', b: 'A', c: 'A' })
  const silence = await stand.monitor.silence({ match: { source: 'gym' }, forMs: '10m', comment: 'works' })
  assert.equal(silence.endsAt, stand.now + 10 * minute)
  const { suppressed } = await stand.see({ a: 'B', b: 'B' })
  assert.deepEqual(
    suppressed.map(({ reason }) => reason),
    ['silenced', 'silenced'],
  )
  stand.pass(10 * minute)
  assert.deepEqual(await stand.monitor.silences(), [])
  await stand.monitor.reconcile({ ...place, venueId: 'a' })
  await stand.monitor.reconcile({ ...place, venueId: 'b' })
  await stand.monitor.reconcile({ ...place, venueId: 'never seen' })
  assert.deepEqual(await stand.send(), ['b nothing→B reconcile'])
  await stand.monitor.silence({ forMs: '1h' })
  const [running] = await stand.monitor.silences()
  assert.equal(await stand.monitor.unsilence(running!.id), true)
  assert.equal(await stand.monitor.unsilence(running!.id), false)
  assert.equal((await stand.see({ a: 'C' })).notified, 1)
})

test('with reconcile, a silence that an operator ends early is over for the next report', async () => {
  await using stand = await openStand()
  await stand.subscribe({ name: 'desk', reconcile: true })
  await stand.see({ a: 'A' })
  const { id } = await stand.monitor.silence({ forMs: 60 * minute })
  await stand.see({ a: 'B' })
  stand.pass(minute)
  assert.equal((await stand.see({ a: 'B' })).notified, 0)
  await stand.monitor.unsilence(id)
  assert.equal((await stand.see({ a: 'B' })).notified, 1)
  assert.equal((await stand.send()).length, 1)
  stand.pass(60 * minute)
  await stand.monitor.reconcile({ ...place, venueId: 'a' })
  assert.deepEqual(await stand.send(), [], 'it was notified, once')
})

test('a throttle counts over all batches of a report, and allows more as time passes', async () => {
  await using stand = await openStand({ batchSize: 2 })
  await stand.subscribe({ throttle: { max: 3, perMs: '1m' } })
  const states = (state: string) =>
    Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`v${at}`, state]))
  await stand.see(states('A'))
  const answer = await stand.see(states('B'))
  assert.equal(answer.notified, 3)
  assert.equal(answer.suppressed.filter(({ reason }) => reason === 'throttled').length, 7)
  stand.pass(minute)
  assert.equal((await stand.see(states('C'))).notified, 3)
})

test('concurrent reports together respect a throttle', async () => {
  await using stand = await openStand()
  await stand.subscribe({ throttle: { max: 5, perMs: minute } })
  const names = Array.from({ length: 20 }, (_, index) => `v${index}`)
  await stand.see(Object.fromEntries(names.map((name) => [name, 'A'])))
  const answers = await Promise.all(names.map((name) => stand.see({ [name]: 'B' })))
  assert.equal(
    answers.reduce((sum, { notified }) => sum + notified, 0),
    5,
  )
  const reasons = answers.flatMap(({ suppressed }) => suppressed.map(({ reason }) => reason))
  assert.deepEqual(reasons, Array(15).fill('throttled'))
})

test('a flapping subject is notified once as such; then it is quiet until it is calm', async () => {
  await using stand = await openStand({ eventDedupTtlMs: 1 })
  await stand.subscribe({ windowMs: 0, flap: { changes: 2, withinMs: '10m' } })
  const notified: string[] = []
  for (const state of ['A', 'B', 'A', 'B', 'A', 'B']) {
    await stand.see({ a: state })
    notified.push(...(await stand.send()))
    stand.pass(1_000)
  }
  assert.deepEqual(notified, ['a A→B', 'a B→A', 'a A→B flapping'])
  stand.pass(10 * minute)
  await stand.see({ a: 'C' })
  assert.deepEqual(await stand.send(), ['a B→C'])
})

test('explain shows each decision with its reason, and the state of each notification', async () => {
  await using stand = await openStand()
  const { id } = await stand.subscribe()
  for (const state of ['A', 'B', 'A']) await stand.see({ a: state })
  await stand.send()
  await stand.see({ a: 'B' })
  await stand.see({ a: 'C' }, { observedAt: stand.now - 1 })
  await stand.see({ a: 'B' })
  const { present, decisions, windows, cursor } = await stand.monitor.explain({ ...place, venueId: 'a' })
  assert.equal(present?.state, 'B')
  assert.equal(cursor, null)
  assert.deepEqual(
    decisions.map(({ from, to, reason, verdicts }) => [
      `${from}→${to}`,
      reason,
      verdicts.map(({ notified, notification }) => (notified ? notification?.status : 'not notified')),
    ]),
    [
      ['B→C', 'stale', []],
      ['A→B', 'notified_recently', ['not notified']],
      ['B→A', 'changed', ['sent']],
      ['A→B', 'changed', ['sent']],
      ['null→A', 'new', ['not notified']],
    ],
  )
  assert.deepEqual(
    windows.map(({ subscriptionId, subscription, state, status, isPresentState }) => [
      ...[subscriptionId, subscription, state, status, isPresentState],
    ]),
    [
      [id, 'front desk', 'B', 'notified', true],
      [id, 'front desk', 'A', 'notified', false],
    ],
  )
  const page = await stand.monitor.explain({ ...place, venueId: 'a', limit: 2 })
  const next = await stand.monitor.explain({ ...place, venueId: 'a', limit: 2, cursor: page.cursor })
  assert.deepEqual([...page.decisions, ...next.decisions], decisions.slice(0, 4))
  const unknown = await stand.monitor.explain({ ...place, venueId: 'unknown' })
  assert.deepEqual([unknown.present, unknown.decisions, unknown.windows], [null, [], []])
})

test('the states of decisions, windows and notifications are values, however large they are', async () => {
  await using stand = await openStand()
  await stand.subscribe({ notifyNew: true })
  const [first, second] = ['x', 'y'].map((letter) => ({
    free: 3,
    note: letter.repeat(5_000),
    list: [1, null],
  }))
  await stand.see({ a: first })
  await stand.send()
  await stand.see({ a: second })
  const { present, windows, decisions } = await stand.monitor.explain({ ...place, venueId: 'a' })
  assert.deepEqual(present?.state, second)
  assert.deepEqual(
    windows.map(({ state, status }) => [state, status]).sort(),
    [
      [first, 'notified'],
      [second, 'pending'],
    ].sort(),
  )
  const changes = [
    { from: first, to: second },
    { from: null, to: first },
  ]
  assert.deepEqual(
    decisions.map(({ from, to }) => ({ from, to })),
    changes,
  )
  const notified = decisions.flatMap(({ verdicts }) => verdicts.map(({ notification }) => notification!))
  assert.deepEqual(
    notified.map(({ from, to }) => ({ from, to })),
    changes,
  )
  const { items } = await stand.monitor.decisions({ ...place, venueId: 'a' })
  assert.deepEqual(
    items.map(({ from, to }) => ({ from, to })),
    changes,
  )
})

test('changes within one millisecond, decided by different processes, are sent in order', async () => {
  await using stand = await openStand()
  await stand.subscribe({ windowMs: 0 })
  const { monitor: store, guards, jobs, notifier } = stand.backend
  const states = Array.from({ length: 30 }, (_, index) => `s${index}`)
  for (const [index, state] of states.entries()) {
    await using other = createMonitor({ store, guards, jobs, notifier })
    const venues = [{ venueId: 'a', state }]
    await other.report({ ...place, taskId: `one of ${index}`, observedAt: stand.now, venues })
  }
  const expected = states.slice(1).map((state, index) => `a ${states[index]}→${state}`)
  assert.deepEqual(await stand.send(), expected)
})

test('a dead notification is sent again only when an operator asks for it', async () => {
  await using stand = await openStand()
  await stand.subscribe()
  await stand.see({ a: 'A' })
  await stand.see({ a: 'B' })
  const [one] = (await stand.monitor.notifications()).items
  await assert.rejects(stand.monitor.replay(one!.id), { code: 'conflict' })
  await stand.send('dead')
  assert.equal((await stand.monitor.notification(one!.id))?.status, 'dead')
  assert.deepEqual(await stand.monitor.replay(one!.id), { id: one!.id, status: 'pending' })
  assert.deepEqual((await stand.see({ a: 'B' })).notified, 0, 'it is on its way again')
  assert.deepEqual(await stand.send(), ['a A→B'])
  await assert.rejects(stand.monitor.replay('unknown'), { code: 'not_found' })
})

test('when a message dies before a newer one of its venue, the present state is still notified', async () => {
  await using stand = await openStand()
  await stand.subscribe()
  for (const state of ['A', 'B', 'A']) await stand.see({ a: state })
  assert.deepEqual((await stand.see({ a: 'B' })).suppressed, [{ venueId: 'a', reason: 'pending' }])
  await stand.sendNext('dead')
  assert.deepEqual(await stand.send(), ['a B→A'])
  assert.equal((await stand.see({ a: 'B' })).notified, 1, 'B is true, and A was notified last')
  assert.deepEqual(await stand.send(), ['a A→B'])
  assert.equal((await stand.see({ a: 'B' })).notified, 0)
})

test('after decisions and windows are pruned, the end of a silence still notifies the missed change', async () => {
  await using stand = await openStand()
  await stand.subscribe({ reconcile: true })
  await stand.see({ a: 'free' })
  await stand.see({ a: 'full' })
  assert.deepEqual(await stand.send(), ['a free→full'])
  stand.pass(60 * minute)
  assert.ok((await stand.backend.monitor.prune({ olderThanMs: minute, limit: 100 })) > 0)
  await stand.monitor.silence({ forMs: minute })
  await stand.see({ a: 'free' })
  stand.pass(minute)
  await stand.monitor.reconcile({ ...place, venueId: 'a' })
  assert.equal((await stand.send()).length, 1)
})

test('subjects, decisions and notifications come in pages that end', async () => {
  await using stand = await openStand()
  const { id } = await stand.subscribe()
  await stand.see({ a: 1, b: 1, c: 1 })
  await stand.see({ a: 2, b: 2, c: 2 })
  const { monitor } = stand
  const first = await monitor.subjects({ limit: 2 })
  assert.deepEqual(
    first.items.map(({ venueId, state }) => [venueId, state]),
    [
      ['a', 2],
      ['b', 2],
    ],
  )
  const rest = await monitor.subjects({ limit: 2, cursor: first.cursor })
  assert.deepEqual([rest.items.length, rest.cursor], [1, null])
  const decisions = await monitor.decisions({ reason: 'changed', limit: 2 })
  assert.equal(
    (await monitor.decisions({ reason: 'changed', limit: 2, cursor: decisions.cursor })).items.length,
    1,
  )
  assert.equal((await monitor.decisions({ ...place, venueId: 'a' })).items.length, 2)
  const notified = await monitor.notifications({ subscriptionId: id, limit: 3 })
  assert.deepEqual(
    notified.items.map(({ venueId }) => venueId),
    ['c', 'b', 'a'],
  )
  assert.deepEqual(await monitor.notifications({ cursor: notified.cursor }), { items: [], cursor: null })
  await assert.rejects(monitor.decisions({ venueId: 'a' }), { code: 'invalid_argument' })
  await assert.rejects(monitor.subjects({ cursor: 'nonsense' }), { code: 'invalid_argument' })
})
