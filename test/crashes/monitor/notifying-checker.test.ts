import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import {
  checkNotifying,
  type NotifyingEvidence,
  type NotifyingRule,
  type SentNotification,
  type TakenMessage,
} from './notifying-checker.ts'

const windowMs = 1_000

function notified(
  id: number,
  from: string | null,
  to: string,
  more: Partial<SentNotification> = {},
): SentNotification {
  const place = { subscriptionId: 's', source: 'gym', venueId: 'court 1' }
  const times = { createdAt: id * 10, finishedAt: id * 10 + 5 }
  return {
    id: `n${String(id).padStart(3, '0')}`,
    ...place,
    from,
    to,
    status: 'sent',
    possibleRepeat: false,
    ...times,
    ...more,
  }
}

function message(one: SentNotification, marked = false): TakenMessage {
  const { id: notificationId, source, venueId, from, to } = one
  return { marked, changes: [{ notificationId, source, venueId, from, to }] }
}

/** What the provider took of these, and in which order, is what they say unless a test gives it. */
function complaintsAbout(
  hears: NotifyingRule['hears'],
  notifications: readonly SentNotification[],
  { baseline = null, ...changed }: Partial<NotifyingEvidence> & { baseline?: string | null; truth: string },
): string {
  const venue = { source: 'gym', venueId: 'court 1', baseline, truth: changed.truth, changedAt: 25 }
  const { complaints } = checkNotifying({
    rules: [{ subscriptionId: 's', source: 'gym', windowMs: hears === 'everything' ? 0 : windowMs, hears }],
    taken: notifications.filter(({ status }) => status === 'sent').map((one) => message(one)),
    notifications,
    reported: [],
    venues: [venue],
    ...changed,
  })
  return complaints.join('\n')
}

describe('for a subscriber to every change the checker', () => {
  const chain = [notified(1, null, 'A'), notified(2, 'A', 'B'), notified(3, 'B', 'C')] as const
  const [first, second, third] = chain

  test('accepts an unbroken chain to the present state', () => {
    const reported = [{ source: 'gym', venueId: 'court 1', from: 'A', to: 'B' }]
    assert.equal(complaintsAbout('everything', chain, { truth: 'C', reported }), '')
  })

  test('accepts and counts a marked repeat', () => {
    const resent = { ...second, possibleRepeat: true }
    const taken = [message(first), message(second), message(second, true), message(third)]
    assert.equal(complaintsAbout('everything', [first, resent, third], { truth: 'C', taken }), '')
  })

  test('refuses a lost change', () => {
    assert.match(
      complaintsAbout('everything', [first, third], { truth: 'C' }),
      /lost: court 1 was A when n003/,
    )
  })

  test('refuses a confirmed change that was never notified, also where the chain hides it', () => {
    const reported = [{ source: 'gym', venueId: 'court 1', from: 'C', to: 'D' }]
    assert.match(
      complaintsAbout('everything', chain, { truth: 'C', reported }),
      /lost: .* C → D was answered for/,
    )
  })

  test('refuses a sent notification that no provider received', () => {
    const taken = [message(first), message(second)]
    assert.match(complaintsAbout('everything', chain, { truth: 'B', taken }), /lost: n003 of court 1 is sent/)
  })

  test('refuses an unmarked repeat, in the message and in the store', () => {
    const taken = [message(first), message(second), message(second), message(third)]
    const complaints = complaintsAbout('everything', chain, { truth: 'C', taken })
    assert.match(complaints, /repeats: n002 of court 1 came again and did not say so/)
    assert.match(complaints, /repeats: n002 of court 1 came again, unknown to the store/)
  })

  test('refuses a swapped order', () => {
    const taken = [message(first), message(third), message(second)]
    assert.match(complaintsAbout('everything', chain, { truth: 'C', taken }), /order: of court 1, n003/)
  })

  test('refuses a wrong end', () => {
    assert.match(
      complaintsAbout('everything', chain, { truth: 'D' }),
      /end: court 1 was heard to be C and is D/,
    )
  })

  test('refuses notifications that stay pending, changed or were invented', () => {
    const pending = notified(4, 'C', 'D', { status: 'pending' })
    assert.match(complaintsAbout('everything', [...chain, pending], { truth: 'C' }), /n004 .* still pending/)
    const altered = [message(first), message({ ...second, to: 'X' }), message(third)]
    assert.match(complaintsAbout('everything', chain, { truth: 'C', taken: altered }), /other words/)
    const madeUp = [...chain.map((one) => message(one)), message(notified(9, 'C', 'C'))]
    assert.match(complaintsAbout('everything', chain, { truth: 'C', taken: madeUp }), /no such notification/)
  })
})

describe('for a subscriber with a window the checker', () => {
  const baseline = 'A'

  test('accepts a state that returns within its window without a notification', () => {
    const heard = [notified(1, 'A', 'B'), notified(2, 'B', 'A')]
    assert.equal(complaintsAbout('by window', heard, { baseline, truth: 'B' }), '')
  })

  test('requires that a reconciling subscriber was last notified of the present state', () => {
    const heard = [notified(1, 'A', 'B'), notified(2, 'B', 'A')]
    assert.match(complaintsAbout('lastly', heard, { baseline, truth: 'B' }), /end: court 1 is B/)
    const reconciled = [...heard, notified(200, 'A', 'B')]
    assert.equal(complaintsAbout('lastly', reconciled, { baseline, truth: 'B' }), '')
  })

  test('refuses the same state twice within its window, and accepts it afterwards', () => {
    const early = [notified(1, 'A', 'B'), notified(2, 'B', 'A'), notified(101, 'A', 'B')]
    assert.match(
      complaintsAbout('by window', early, { baseline, truth: 'B' }),
      /D1: court 1 B was notified as n001/,
    )
    const late = [notified(1, 'A', 'B'), notified(2, 'B', 'A'), notified(102, 'A', 'B')]
    assert.equal(complaintsAbout('by window', late, { baseline, truth: 'B' }), '')
  })

  test('requires that a dead notification is notified again', () => {
    const died = notified(1, 'A', 'B', { status: 'dead' })
    assert.match(complaintsAbout('by window', [died], { baseline, truth: 'B' }), /end: court 1 is B/)
    const { counts, complaints } = checkNotifying({
      rules: [{ subscriptionId: 's', source: 'gym', windowMs, hears: 'by window' }],
      taken: [message(notified(2, 'A', 'B'))],
      notifications: [died, notified(2, 'A', 'B')],
      reported: [],
      venues: [{ source: 'gym', venueId: 'court 1', baseline, truth: 'B', changedAt: 0 }],
    })
    assert.deepEqual([complaints, counts.dead, counts.resent], [[], 1, 1])
  })

  test('requires a notification of a state that returned after its window ended', () => {
    const heard = [notified(1, 'A', 'B', { createdAt: -2_000, finishedAt: -1_990 }), notified(2, 'B', 'A')]
    assert.match(complaintsAbout('by window', heard, { baseline, truth: 'B' }), /no window held that back/)
  })

  test('refuses any notification of an unchanged venue', () => {
    assert.equal(complaintsAbout('by window', [], { baseline, truth: 'A' }), '')
    assert.match(complaintsAbout('by window', [], { baseline, truth: 'B' }), /end: court 1 is B/)
  })
})
