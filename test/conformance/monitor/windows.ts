/** The window of a subscription for one state: reserved, notified, owed or none. And the replay of notifications. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import type { WindowRecord } from '../../../src/monitor/monitor-store.ts'
import type { Stores } from '../../../src/storage/backend.ts'
import type { Candidate } from '../candidates.ts'
import {
  aJob,
  anEnd,
  aStep,
  aSubject,
  due,
  finish,
  hash,
  known,
  longMs,
  notification,
  notify,
  past,
  present,
  shortMs,
  take,
} from './making.ts'

const [b, c] = [hash('B'), hash('C')]

export function windowsContract({ open }: Candidate): void {
  test('a decision reserves a window, which starts with the provider’s answer', async () => {
    await using backend = await open()
    await present(backend)
    const [id] = await notify(backend, { windowMs: 5_000 })
    const reserved = await windowOf(backend, b)
    const expected = { subscriptionId: 'sub-1', stateHash: b, notificationId: id }
    assert.deepEqual(reserved, { ...expected, status: 'pending', notifiedAt: null, endsAt: null })

    await finish(backend, await take(backend), id!)

    const { finishedAt } = await notification(backend, id!)
    const notified = { ...expected, status: 'notified', notifiedAt: finishedAt, endsAt: finishedAt! + 5_000 }
    assert.deepEqual(await windowOf(backend, b), notified)
  })

  test('a notification held for an operator starts the window as if it were sent', async () => {
    await using backend = await open()
    await present(backend)
    const [id] = await notify(backend, {})
    await finish(backend, await take(backend), id!, { outcome: 'held' })
    assert.equal((await windowOf(backend, b))?.status, 'notified')
  })

  test('a dead notification is owed; a cancelled one leaves no window', async () => {
    await using backend = await open()
    await present(backend)
    const [died, cancelled] = await notify(backend, { stateHash: b }, { stateHash: c })
    const ref = await take(backend)
    await finish(backend, ref, died!, { outcome: 'dead' })
    await finish(backend, ref, cancelled!, { outcome: 'cancelled' })
    const owed = { subscriptionId: 'sub-1', stateHash: b, notificationId: died, status: 'owed' }
    assert.deepEqual((await known(backend, aSubject()))?.windows, [
      { ...owed, notifiedAt: null, endsAt: null },
    ])
  })

  test('a window that is reserved again keeps its last notified time, also after a death', async () => {
    await using backend = await open()
    await present(backend)
    const [first] = await notify(backend, { windowMs: 1 })
    const ref = await take(backend)
    await finish(backend, ref, first!)
    const { notifiedAt } = (await windowOf(backend, b))!
    const [second] = await notify(backend, {})
    const again = { subscriptionId: 'sub-1', stateHash: b, notificationId: second, notifiedAt, endsAt: null }
    assert.deepEqual(await windowOf(backend, b), { ...again, status: 'pending' })
    await finish(backend, ref, second!, { outcome: 'dead' })
    assert.deepEqual(await windowOf(backend, b), { ...again, status: 'owed' })
  })

  test('the end of a notification leaves a window that another notification has reserved since', async () => {
    await using backend = await open()
    await present(backend)
    for (const outcome of ['dead', 'cancelled'] as const) {
      const [old] = await notify(backend, {})
      const [since] = await notify(backend, {})
      const ref = await take(backend, { token: 'same' })
      await finish(backend, ref, old!, { outcome })
      const window = await windowOf(backend, b)
      assert.deepEqual([window?.status, window?.notificationId], ['pending', since])
      await finish(backend, ref, since!, { outcome: 'cancelled' })
    }
  })

  test('a notification clears ended and owed windows of its subscription; open windows stay', async () => {
    await using backend = await open()
    await present(backend)
    const ref = await take(backend)
    const states = ['over', 'owed', 'open', 'pending', 'last'].map(hash)
    const [over, owed, open_, pending, last] = states
    const send = async (stateHash: string, windowMs: number, outcome: 'sent' | 'dead') => {
      const [id] = await notify(backend, { stateHash, windowMs })
      await finish(backend, ref, id!, { outcome })
      return (await notification(backend, id!)).finishedAt!
    }
    await send(open_!, longMs, 'sent')
    const [foreign] = await notify(backend, { stateHash: over!, subscriptionId: 'sub-2', windowMs: 1 })
    await finish(backend, ref, foreign!)
    const at = await send(over!, shortMs, 'sent')
    await send(owed!, longMs, 'dead')
    await past(backend, at + shortMs)
    const [waits] = await notify(backend, { ...aSubject(), channel: hash('another'), stateHash: pending! })
    assert.ok(waits)
    await send(last!, longMs, 'sent')
    const { windows } = (await known(backend, aSubject()))!
    assert.deepEqual(
      windows.map(({ subscriptionId, stateHash }) => `${subscriptionId} ${stateHash}`).sort(),
      [`sub-2 ${over}`, `sub-1 ${open_}`, `sub-1 ${pending}`, `sub-1 ${last}`].sort(),
    )
  })

  test('a notification of another state keeps the present state as owed', async () => {
    await using backend = await open()
    await present(backend)
    const { stateHash } = (await known(backend, aSubject()))!
    const ref = await take(backend)
    const [died] = await notify(backend, { stateHash })
    const [next] = await notify(backend, {})
    await finish(backend, ref, died!, { outcome: 'dead' })
    await finish(backend, ref, next!)
    assert.deepEqual(
      [(await windowOf(backend, stateHash))?.status, (await windowOf(backend, b))?.status],
      ['owed', 'notified'],
    )
  })

  test('while a channel stays dead, at most one past state is owed', async () => {
    await using backend = await open()
    await present(backend)
    const ref = await take(backend)
    for (const state of ['B', 'C', 'D', 'E']) {
      const [id] = await notify(backend, { stateHash: hash(state) })
      await finish(backend, ref, id!, { outcome: 'dead' })
    }
    const { windows } = (await known(backend, aSubject()))!
    assert.deepEqual(
      windows.map(({ stateHash, status }) => [stateHash, status]),
      [[hash('E'), 'owed']],
    )
  })

  test('a replay sends a dead notification again: it reserves the window and adds the job', async () => {
    await using backend = await open()
    await present(backend)
    const [id] = await notify(backend, {})
    const ref = await take(backend)
    await finish(backend, ref, id!, { outcome: 'dead', error: '{"message":"gone"}' })
    const job = aJob({ queue: 'signalbox.notify', kind: 'send' })

    assert.equal(await backend.monitor.replay(id!, job), true)

    const { status, attempt, finishedAt, possibleRepeat } = await notification(backend, id!)
    const expected = { status: 'pending', attempt: 0, finishedAt: null, possibleRepeat: false }
    assert.deepEqual({ status, attempt, finishedAt, possibleRepeat }, expected)
    assert.equal((await windowOf(backend, b))?.status, 'pending')
    assert.equal((await backend.jobs.find(job.id))?.state, 'ready')
    assert.deepEqual(await due(backend, ref), [id])
  })

  test('a replayed held notification is a possible repeat; other states cannot be replayed', async () => {
    await using backend = await open()
    await present(backend)
    const [held] = await notify(backend, {})
    const ref = await take(backend)
    const job = aJob()
    assert.equal(await backend.monitor.replay(held!, job), false, 'pending')
    await finish(backend, ref, held!, { outcome: 'held' })
    assert.equal(await backend.monitor.replay(held!, aJob()), true)
    assert.equal((await notification(backend, held!)).possibleRepeat, true)
    await backend.monitor.proceed(ref, aStep({ ends: [anEnd(held!)] }))
    assert.equal(await backend.monitor.replay(held!, job), false, 'sent')
    assert.equal(await backend.monitor.replay(createId(), job), false, 'unknown')
    assert.equal(await backend.jobs.find(job.id), undefined)
  })
}

async function windowOf(stores: Stores, stateHash: string): Promise<WindowRecord | undefined> {
  return (await known(stores, aSubject()))?.windows.find((window) => window.stateHash === stateHash)
}
