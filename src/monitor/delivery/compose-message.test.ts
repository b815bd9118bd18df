import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import type { NotificationRecord } from '../monitor-store.ts'
import { checkTemplate, composeMessage, showValue } from './compose-message.ts'

function aRecord(record: Partial<NotificationRecord> = {}): NotificationRecord {
  return {
    id: 'n1',
    subscriptionId: 's1',
    channel: 'c1',
    decisionId: null,
    eventId: null,
    kind: 'change',
    subject: 'x',
    source: 'gym',
    group: '18:00-19:00',
    name: 'court 1',
    from: '"full"',
    to: '"free"',
    stateHash: 'h',
    windowMs: 1,
    maxAttempts: 4,
    status: 'pending',
    attempt: 0,
    dueAt: 0,
    createdAt: 1_700_000_000_000,
    finishedAt: null,
    error: null,
    possibleRepeat: false,
    digestId: null,
    ...record,
  }
}

const lineOf = (record: Partial<NotificationRecord>, template: string | null = null) =>
  composeMessage('m', [{ record: aRecord(record), template }], false).changes[0]!.line

test('a message describes a change in one plain line', () => {
  assert.equal(lineOf({}), 'gym 18:00-19:00 court 1: full → free')
  assert.equal(lineOf({ from: null }), 'gym 18:00-19:00 court 1: first seen, free')
  assert.equal(lineOf({ kind: 'flapping' }), 'gym 18:00-19:00 court 1: keeps changing, now free')
  assert.equal(lineOf({ kind: 'reconcile' }), 'gym 18:00-19:00 court 1: is now free (last notified: full)')
})

test('an alert describes the problem in words, and later its end', () => {
  const alert = { source: 'signalbox', group: '', name: 'dead-jobs mail', from: null }
  const firing = { ...alert, to: '{"level":1,"says":"1 dead.","status":"firing"}' }
  const over = { ...alert, from: firing.to, to: '{"level":0,"says":"It is over.","status":"ok"}' }
  const titleOf = (record: Partial<NotificationRecord>) =>
    composeMessage('m', [{ record: aRecord(record), template: null }], false).title
  assert.deepEqual([titleOf(firing), lineOf(firing)], ['Alert: dead-jobs mail', 'dead-jobs mail: 1 dead.'])
  assert.deepEqual([titleOf(over), lineOf(over)], ['Over: dead-jobs mail', 'dead-jobs mail: It is over.'])
  assert.equal(titleOf({ ...over, from: null }), 'Test alert')
  // Other sources may use the same field for anything.
  assert.match(lineOf({ ...firing, source: 'gym' }), /first seen, \{"level"/)
})

test('a template inserts the values that it names, once', () => {
  assert.equal(
    lineOf({ to: '"{from} {source}"' }, '{venueId}@{timeSlot} ({source}) {from}=>{to} {reason} {at}'),
    'court 1@18:00-19:00 (gym) full=>{from} {source} changed 2023-11-14T22:13:20.000Z',
  )
  assert.equal(lineOf({}, 'no braces { here }x'), 'no braces { here }x')
})

test('a template with an unknown placeholder is refused', () => {
  assert.equal(checkTemplate('template', '{venueId}: {to}'), '{venueId}: {to}')
  for (const bad of [
    '{venue}',
    '{constructor}',
    '{}',
    '{to.x}',
    '',
    '  ',
    7,
    null,
    'x'.repeat(2_001),
    '\ud800',
  ]) {
    assert.throws(
      () => checkTemplate('template', bad),
      (error) => isSignalboxError(error, 'invalid_argument') && error.message.includes('{venueId}'),
      String(bad),
    )
  }
})

test('several changes make a digest, and a possible repeat is marked as one', () => {
  const message = composeMessage(
    'd1',
    ['a', 'b'].map((id) => ({ record: aRecord({ id }), template: null })),
    true,
  )
  assert.equal(message.id, 'd1')
  assert.equal(message.kind, 'digest')
  assert.equal(message.title, '2 changes')
  assert.equal(message.possibleRepeat, true)
  assert.deepEqual(
    message.changes.map(({ notificationId }) => notificationId),
    ['a', 'b'],
  )
})

test('programs get states whole, people get them shortened and on one line', () => {
  const state = { note: 'x'.repeat(500) }
  const [change] = composeMessage(
    'm',
    [{ record: aRecord({ to: JSON.stringify(state) }), template: '{to}' }],
    false,
  ).changes
  assert.deepEqual(change!.to, state)
  assert.equal([...change!.line].length, 120)
  assert.ok(change!.line.endsWith('…'))
  assert.equal(showValue('two\nlines\u202e turned'), 'two lines  turned')
  assert.equal(showValue('🏸'.repeat(200)), `${'🏸'.repeat(119)}…`)
  assert.equal(showValue(null), 'null')
})
