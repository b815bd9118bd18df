import assert from 'node:assert/strict'
import { test } from 'vitest'
import { OnceTally } from '../../../once/index.ts'
import type { Family, Labels } from './metric-registry.ts'
import {
  maxServiceLines,
  namedSubscriptions,
  nodeFamilies,
  onceFamilies,
  onceMeterLimit,
  problemFamilies,
  sendingFamilies,
} from './module-gauges.ts'

function counted(families: readonly Family[], name: string, labels: Labels): number | undefined {
  const { values } = families.find((family) => family.name === name)!
  const found = values.filter((value) => JSON.stringify(value.labels) === JSON.stringify(labels))
  assert.ok(found.length <= 1, `${name} has each series once`)
  return found[0]?.value
}

test('the answers of guards are counted by name, by outcome and by policy', () => {
  const tally = new OnceTally()
  tally.claimed('processing', 'task', { status: 'run' })
  tally.claimed('processing', 'task', { status: 'running' })
  tally.claimed('once', 'key', { status: 'run' })
  tally.claimed('once', 'key', { status: 'done' })
  tally.claimed('once', 'key', { status: 'done' })
  tally.seen(['venue'], true)
  tally.degraded('claim', 'open', undefined, 3)
  const families = onceFamilies([{ namespace: 'shop', tally }])
  assert.ok(families.every(({ type }) => type === 'counter'))
  const counts = {
    lock_acquired_count: 1,
    lock_rejected_count: 1,
    duplicate_events: 2,
    unique_events: 1,
    notification_dedup: 1,
  }
  for (const [name, value] of Object.entries(counts))
    assert.equal(counted(families, `signalbox_${name}`, { namespace: 'shop' }), value, name)
  const answers = (guard: string, outcome: string) =>
    counted(families, 'signalbox_once_total', { namespace: 'shop', guard, outcome })
  assert.deepEqual(
    [answers('once', 'done'), answers('processing', 'running'), answers('seen', 'seen')],
    [2, 1, 1],
  )
  assert.equal(answers('degraded', 'open'), undefined)
  const degraded = (policy: string) =>
    counted(families, 'signalbox_once_degraded_total', { namespace: 'shop', policy })
  assert.deepEqual([degraded('open'), degraded('closed')], [3, 0])
})

test('namespaces above the limit are added up as one', () => {
  const spaces = Array.from({ length: onceMeterLimit + 3 }, (_, at) => {
    const tally = new OnceTally()
    tally.claimed('once', 'key', { status: 'run' })
    return { namespace: `n${String(at).padStart(4, '0')}`, tally }
  })
  const families = onceFamilies(spaces.reverse())
  assert.equal(counted(families, 'signalbox_unique_events', { namespace: 'n0000' }), 1)
  assert.equal(counted(families, 'signalbox_unique_events', { namespace: 'other' }), 3)
  const answered = { namespace: 'other', guard: 'once', outcome: 'run' }
  assert.equal(counted(families, 'signalbox_once_total', answered), 3)
})

test('sent notifications are counted by type of channel and outcome', () => {
  const zero = {
    sent: 0,
    retried: 0,
    dead: 0,
    ambiguous: 0,
    held: 0,
    cancelled: 0,
    digested: 0,
    penalties: 0,
  }
  const families = sendingFamilies([{ namespace: 'shop', counts: { slack: { ...zero, sent: 4, dead: 1 } } }])
  const of = (outcome: string) =>
    counted(families, 'signalbox_notifications_total', { namespace: 'shop', channel: 'slack', outcome })
  assert.deepEqual([of('sent'), of('dead'), of('held')], [4, 1, 0])
})

test('dead notifications are counted by subscription, and those beyond the limit share one label', () => {
  const dead = Array.from({ length: namedSubscriptions + 3 }, (_, n) => ({
    subscriptionId: `s${n}`,
    subscription: `desk ${n}`,
    channel: 'slack' as const,
    count: n + 1,
    since: 1,
  }))
  const problems = { dead, unreadable: [], plain: 0 }
  const [family] = problemFamilies([{ label: 'default', problems }])
  const { values } = family!
  assert.equal(values.length, namedSubscriptions + 1)
  assert.deepEqual(values[0]!.labels, {
    namespace: 'default',
    channel: 'slack',
    subscription: `desk ${namedSubscriptions + 2}`,
  })
  const other = values.find(({ labels }) => labels?.subscription === 'other')
  assert.equal(other?.value, 1 + 2 + 3)
})

/** The values of a metric, by its labels. */
function valuesOf(name: string, families: ReturnType<typeof nodeFamilies>): Readonly<Record<string, number>> {
  const { values } = families.find((family) => family.name === name)!
  return Object.fromEntries(
    values.map(({ labels, value }) => [Object.values(labels as Record<string, string>).join(' '), value]),
  )
}

test('services have waiting tasks, the oldest wait and slots as gauges', () => {
  const families = nodeFamilies([
    {
      namespace: 'shop',
      nodeStates: () => new Map([['ready', 2]]),
      serviceCounts: () => [{ service: 'asr', waiting: 3, oldestWaitMs: 1_500, slots: 8, used: 5 }],
    },
  ])
  assert.deepEqual(valuesOf('signalbox_nodes', families), { 'shop ready': 2 })
  assert.deepEqual(valuesOf('signalbox_tasks_waiting', families), { 'shop asr': 3 })
  assert.deepEqual(valuesOf('signalbox_tasks_oldest_wait_seconds', families), { 'shop asr': 1.5 })
  assert.deepEqual(valuesOf('signalbox_slots', families), { 'shop asr': 8 })
  assert.deepEqual(valuesOf('signalbox_slots_used', families), { 'shop asr': 5 })
})

test('services beyond the limit are added up as other, and those with waiting tasks keep their names', () => {
  const count = maxServiceLines + 10
  const lines = Array.from({ length: count }, (_, at) => ({
    ...{ service: `s${at}`, waiting: at === count - 1 ? 7 : 0 },
    ...{ oldestWaitMs: at === count - 1 ? 9_000 : 0, slots: 2, used: 0 },
  }))
  const families = nodeFamilies([{ namespace: 'shop', serviceCounts: () => lines }])
  const waiting = valuesOf('signalbox_tasks_waiting', families)
  assert.equal(Object.keys(waiting).length, maxServiceLines + 1)
  assert.equal(waiting[`shop s${count - 1}`], 7)
  assert.equal(valuesOf('signalbox_slots', families)['other other'], 20)
})
