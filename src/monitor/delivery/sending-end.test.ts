import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import type { SendingEnd, WindowRecord } from '../monitor-store.ts'
import { endNotification, endWindows } from './sending-end.ts'

const now = 10_000
const notification = { id: 'n9', subscriptionId: 'desk', stateHash: 'B', windowMs: 500 }
const moment = { notification, presentHash: 'B', now }

function aWindow(window: Partial<WindowRecord> = {}): WindowRecord {
  return {
    ...{ subscriptionId: 'desk', stateHash: 'B', status: 'pending', notificationId: 'n9' },
    ...{ notifiedAt: null, endsAt: null },
    ...window,
  }
}

function end(outcome: SendingEnd['outcome'], ...windows: readonly WindowRecord[]): readonly string[] {
  return endWindows(windows, outcome, moment).map(({ stateHash, status }) => `${stateHash} ${status}`)
}

const over = aWindow({
  stateHash: 'over',
  status: 'notified',
  notificationId: 'n1',
  notifiedAt: 1,
  endsAt: now,
})
const open = aWindow({ ...over, stateHash: 'open', endsAt: now + 1 })
const owed = aWindow({ stateHash: 'owed', status: 'owed', notificationId: 'n2' })
const reserved = aWindow({ stateHash: 'reserved', notificationId: 'n3' })

describe('the windows when a notification ends', () => {
  test('start with the ack, and ended or owed windows of past states are cleared', () => {
    for (const outcome of ['sent', 'held'] as const)
      assert.deepEqual(end(outcome, over, open, owed, reserved, aWindow()), [
        'open notified',
        'reserved pending',
        'B notified',
      ])
    const [window] = endWindows([], 'sent', moment)
    assert.deepEqual([window!.notifiedAt, window!.endsAt], [now, now + 500])
  })

  test('keep the present state owed when another state is notified', () => {
    const present = { ...moment, presentHash: 'owed' }
    assert.deepEqual(endWindows([owed], 'sent', present)[0], owed)
  })

  test('owe a dead notification, and nothing of a past state that was never notified', () => {
    const repeat = aWindow({ stateHash: 'repeat', status: 'owed', notifiedAt: 5 })
    assert.deepEqual(end('dead', over, owed, repeat, aWindow()), ['over notified', 'repeat owed', 'B owed'])
  })

  test("lose a cancelled notification's reservation, and keep that of a retry", () => {
    assert.deepEqual(end('cancelled', open, aWindow()), ['open notified'])
    assert.deepEqual(end('retry', over, aWindow()), ['over notified', 'B pending'])
  })

  test('keep the reservation of another notification', () => {
    const others = aWindow({ notificationId: 'n10' })
    for (const outcome of ['dead', 'cancelled'] as const)
      assert.deepEqual(endWindows([others], outcome, moment), [others])
  })
})

test('a retry is due later, and a free retry counts no attempt', () => {
  const record = { attempt: 3, dueAt: 1 }
  const ending = { afterMs: 50, error: 'e', digestId: 'd' }
  const again = {
    status: 'pending',
    attempt: 3,
    dueAt: now + 50,
    finishedAt: null,
    error: 'e',
    digestId: 'd',
  }
  assert.deepEqual(endNotification(record, { ...ending, outcome: 'retry' }, now), again)
  assert.deepEqual(endNotification(record, { ...ending, outcome: 'retry', free: true }, now), {
    ...again,
    attempt: 2,
  })
  const dead = endNotification(record, { ...ending, outcome: 'dead', free: true }, now)
  assert.deepEqual(dead, { ...again, status: 'dead', attempt: 3, dueAt: 1, finishedAt: now })
})
