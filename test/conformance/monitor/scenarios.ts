/** The scenarios of the monitor on every engine. The test itself does the sender's steps. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createMonitor, type Monitor, type ReportAnswer } from '../../../src/monitor/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { anEnd, aStep, longMs, now, past } from './making.ts'

const place = { source: 'gym', timeSlot: '18:00-19:00' }
const channel = {
  type: 'webhook' as const,
  url: 'https://example.com/hook',
  secret: 'eight-or-more-characters',
}

export function scenariosContract({ open, isShared }: Candidate): void {
  test('scenario 1: of eight nodes with the same task result one processes it and all others skip it', async () => {
    const namespace = aNamespace()
    await using backend = await open({ namespace })
    await watch(monitorOn(backend))
    await see(monitorOn(backend), 'baseline', 'A')
    const nodes = isShared ? await Promise.all(eight(() => open({ namespace }))) : eight(() => backend)

    const answers = await Promise.all(nodes.map((node) => see(monitorOn(node), 'task-1', 'B')))

    const processed = answers.filter(({ status }) => status === 'processed')
    assert.equal(processed.length, 1)
    assert.equal(processed[0]?.notified, 1)
    for (const answer of answers)
      if (answer !== processed[0]) assert.deepEqual(answer, skipped(answer.status))
    const { items } = await monitorOn(backend).notifications()
    assert.deepEqual(
      items.map(({ from, to, status }) => [from, to, status]),
      [['A', 'B', 'pending']],
    )
    const late = await see(monitorOn(backend), 'task-1', 'B')
    assert.deepEqual(late, skipped('duplicate'), 'also when it comes again later')
    if (isShared) for (const node of nodes) await node.close()
  })

  test('scenario 2: A→B notified, B→A notified, A→B within five minutes not notified, B→C notified', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend)
    await watch(monitor)
    assert.equal((await see(monitor, 't', 'A')).notified, 0, 'the first state is the baseline')

    const story = [
      { to: 'B', reason: 'changed', notified: 1 },
      { to: 'A', reason: 'changed', notified: 1 },
      { to: 'B', reason: 'notified_recently', notified: 0 },
      { to: 'C', reason: 'changed', notified: 1 },
    ]
    for (const { to, reason, notified } of story) {
      const answer = await see(monitor, `to ${to}`, to)
      assert.deepEqual([answer.changes[0]?.reason, answer.notified], [reason, notified], `to ${to}`)
      await acknowledge(backend)
    }

    const { items } = await monitor.notifications()
    assert.deepEqual(
      items.map(({ from, to, status }) => `${from}→${to} ${status}`),
      ['B→C sent', 'B→A sent', 'A→B sent'],
    )
    const { decisions } = await monitor.explain({ ...place, venueId: 'court-1' })
    assert.deepEqual(
      decisions.map(({ reason }) => reason),
      ['changed', 'notified_recently', 'changed', 'changed', 'new'],
    )
  })

  test('a subject of the general form is notified, explained and listed like a venue', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend)
    await watch(monitor)
    for (const [at, state] of ['A', 'B'].entries()) {
      const report = { taskId: `general ${at}`, source: 'gym', observedAt: (await now(backend)) + at }
      const answer = await monitor.report({ ...report, subjects: [{ subject: 'court-1', state }] })
      assert.deepEqual([answer.changes[0]?.subject, answer.notified], ['court-1', at])
    }
    await acknowledge(backend)
    await see(monitor, 'venue', 'C')
    const [first, second] = (await monitor.subjects()).items
    assert.deepEqual([first?.subject, first?.state, second?.venueId], ['court-1', 'B', 'court-1'])
    const { windows, decisions } = await monitor.explain({ source: 'gym', subject: 'court-1' })
    assert.deepEqual([windows[0]?.status, decisions.length], ['notified', 2])
  })

  test('scenario 2, to the end: the window starts with the ack, repeats do not extend it', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend, { eventDedupTtlMs: 1 })
    const windowMs = 1_000
    await watch(monitor, { windowMs })
    await see(monitor, 't', 'A')
    await see(monitor, 'on its way', 'B')
    await see(monitor, 'back', 'A')
    const waiting = await see(monitor, 'again', 'B')
    assert.deepEqual(waiting.suppressed, [{ venueId: 'court-1', reason: 'pending' }])
    await acknowledge(backend)
    const notifiedAt = (await monitor.notifications({ status: 'sent' })).items.at(-1)!.finishedAt!
    let last: ReportAnswer
    do {
      await see(monitor, 'elsewhere', 'A')
      last = await see(monitor, 'repeat', 'B')
      await acknowledge(backend)
      const reason = last.changes[0]?.reason
      assert.ok(reason === 'notified_recently' || reason === 'changed', reason)
    } while (last.notified === 0)
    assert.ok((await now(backend)) >= notifiedAt + windowMs, 'not before its end')
  })

  test('scenario 3: a late result is neither written nor notified, and every change is notified once', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend)
    await watch(monitor)
    const start = await now(backend)
    const at = (order: number) => start - longMs + order
    await see(monitor, 'event 0', 'zero', at(0))
    const second = await see(monitor, 'event 2', 'two', at(2))
    const first = await see(monitor, 'event 1', 'one', at(1))
    const third = await see(monitor, 'event 3', 'three', at(3))
    assert.deepEqual([second.notified, third.notified], [1, 1])
    assert.deepEqual(first, {
      ...skipped('processed'),
      suppressed: [{ venueId: 'court-1', reason: 'stale' }],
    })
    const { present } = await monitor.explain({ ...place, venueId: 'court-1' })
    assert.deepEqual([present?.state, present?.observedAt], ['three', at(3)])
    const { items } = await monitor.notifications()
    assert.deepEqual(
      items.map(({ from, to }) => `${from}→${to}`),
      ['two→three', 'zero→two'],
    )
  })

  test('eight crawlers that see the same changes at once notify each of them once', async () => {
    const namespace = aNamespace()
    await using backend = await open({ namespace })
    await watch(monitorOn(backend))
    const venues = Array.from({ length: 20 }, (_, index) => `court-${index}`)
    const saw = (state: string) => venues.map((venueId) => ({ venueId, state }))
    const start = await now(backend)
    const report = (monitor: Monitor, taskId: string, state: string, order: number) =>
      monitor.report({ ...place, taskId, observedAt: start - longMs + order, venues: saw(state) })
    await report(monitorOn(backend), 'baseline', 'A', 0)
    const nodes = isShared ? await Promise.all(eight(() => open({ namespace }))) : eight(() => backend)

    const answers = await Promise.all(
      nodes.map((node, index) => report(monitorOn(node), `crawler ${index}`, 'B', index)),
    )

    for (const answer of answers) assert.deepEqual([answer.status, answer.failed], ['processed', []])
    const notified = answers.reduce((sum, { notified }) => sum + notified, 0)
    assert.equal(notified, 20)
    const { items } = await monitorOn(backend).notifications({ limit: 100 })
    assert.deepEqual(items.map(({ venueId }) => venueId).sort(), venues.toSorted())
    if (isShared) for (const node of nodes) await node.close()
  })

  test('a dead notification is owed: the next report notifies it although nothing changed', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend)
    await watch(monitor)
    await see(monitor, 't1', 'A')
    await see(monitor, 't2', 'B')
    assert.equal((await see(monitor, 't3', 'B')).notified, 0, 'while it is on its way')
    await acknowledge(backend, 'dead')
    const again = await see(monitor, 't4', 'B')
    assert.deepEqual([again.notified, again.changes], [1, []])
    assert.equal((await see(monitor, 't5', 'B')).notified, 0)
    await acknowledge(backend)
    assert.equal((await see(monitor, 't6', 'B')).notified, 0)
    const { items } = await monitor.notifications()
    assert.deepEqual(
      items.map(({ from, to, status }) => `${from}→${to} ${status}`),
      ['A→B sent', 'A→B dead'],
    )
  })

  test('a reconcile notifies the present state when the window is over and another state was notified last', async () => {
    await using backend = await open()
    const monitor = monitorOn(backend)
    await watch(monitor, { windowMs: 500, reconcile: true })
    for (const state of ['A', 'B', 'A', 'B']) {
      await see(monitor, `to ${state}`, state)
      await acknowledge(backend)
    }
    const jobs = await backend.jobs.list({ queue: 'signalbox.notify', kind: 'reconcile', limit: 10 })
    assert.equal(jobs.length, 1)
    assert.deepEqual(JSON.parse(jobs[0]!.payload), { ...place, venueId: 'court-1' })
    await past(backend, jobs[0]!.runAt)
    await monitor.reconcile(JSON.parse(jobs[0]!.payload))
    await monitor.reconcile(JSON.parse(jobs[0]!.payload))
    const { items } = await monitor.notifications({ status: 'pending' })
    assert.deepEqual(
      items.map(({ kind, from, to }) => [kind, from, to]),
      [['reconcile', 'A', 'B']],
    )
  })
}

function eight<Thing>(make: () => Thing): readonly Thing[] {
  return Array.from({ length: 8 }, make)
}

function monitorOn(backend: Backend, options: Parameters<typeof createMonitor>[1] = {}): Monitor {
  const { monitor: store, guards, ownGuards, jobs, notifier } = backend
  return createMonitor({ store, guards: ownGuards ?? guards, jobs, notifier }, options)
}

async function watch(monitor: Monitor, options: object = {}): Promise<void> {
  await monitor.subscribe({ name: 'front desk', match: { source: 'gym' }, channel, ...options })
}

let reports = 0

/** One venue's state; each report is a new task unless it repeats an earlier name. */
async function see(
  monitor: Monitor,
  task: string,
  state: string,
  observedAt?: number,
): Promise<ReportAnswer> {
  const isShared = /^task-/.test(task)
  return monitor.report({
    ...place,
    taskId: isShared ? task : `${task} ${++reports}`,
    observedAt: observedAt ?? Date.now(),
    venues: [{ venueId: 'court-1', state }],
  })
}

function skipped(status: ReportAnswer['status']): ReportAnswer {
  return { status, changes: [], notified: 0, suppressed: [], failed: [] }
}

/** Sends everything that is due, like a sender whose provider answers at once. */
async function acknowledge({ monitor }: Backend, outcome: 'sent' | 'dead' = 'sent'): Promise<void> {
  const [one] = await monitor.notifications({ status: 'pending', limit: 1 })
  if (!one) return
  const ref = { channel: one.channel, token: 'sender' }
  assert.ok((await monitor.take({ ...ref, leaseMs: longMs })).taken)
  for (;;) {
    const { items } = (await monitor.due(ref, 100))!
    if (items.length === 0) break
    const begin = items.map(({ id }) => ({ id, repeat: false }))
    assert.ok(await monitor.proceed(ref, aStep({ begin })))
    assert.ok(await monitor.proceed(ref, aStep({ ends: items.map(({ id }) => anEnd(id, { outcome })) })))
  }
  assert.equal(await monitor.letGo(ref), 'released')
}
