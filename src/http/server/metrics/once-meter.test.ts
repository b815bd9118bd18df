import assert from 'node:assert/strict'
import { test } from 'vitest'
import { OnceTally } from '../../../once/index.ts'
import type { Family, Labels } from './metric-series.ts'
import { onceFamilies, onceMeterLimit, sendingFamilies } from './once-meter.ts'

function counted(families: readonly Family[], name: string, labels: Labels): number | undefined {
  const { values } = families.find((family) => family.name === name)!
  const found = values.filter((value) => JSON.stringify(value.labels) === JSON.stringify(labels))
  assert.ok(found.length <= 1, `${name} has each series once`)
  return found[0]?.value
}

test('what guards answered is counted by name, by outcome and by policy', () => {
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

test('what was sent is counted by type of channel and outcome', () => {
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
