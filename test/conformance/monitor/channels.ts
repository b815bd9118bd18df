/** One sender at a time has a channel; a later one leaves a request. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { anEnd, aStep, due, hash, longMs, notification, notify, shortMs, take, until } from './making.ts'

export function channelsContract({ open }: Candidate): void {
  test('one sender takes a channel; another is refused and leaves a mark', async () => {
    await using backend = await open()
    const ref = await take(backend)
    const other = { channel: ref.channel, token: 'other' }
    assert.deepEqual(await backend.monitor.take({ ...other, leaseMs: longMs }), { taken: false })
    assert.equal(await backend.monitor.letGo(ref), 'wanted')
    assert.ok(await backend.monitor.due(ref, 1), 'it is still ours')
    assert.equal(await backend.monitor.letGo(ref), 'released')
    assert.equal(await backend.monitor.due(ref, 1), undefined)
    await take(backend, { token: 'other' })
  })

  test('taking a channel clears the mark, and the same token can take it again', async () => {
    await using backend = await open()
    const ref = await take(backend)
    await backend.monitor.take({ channel: ref.channel, token: 'other', leaseMs: longMs })
    await take(backend, { token: ref.token })
    assert.equal(await backend.monitor.letGo(ref), 'released')
    assert.equal(await backend.monitor.letGo(ref), 'lost')
  })

  test('a channel whose sender died is free when its lease expires, and that sender has lost it', async () => {
    await using backend = await open()
    const { monitor } = backend
    const [id] = await notify(backend, {})
    const ref = await take(backend, { leaseMs: shortMs })
    await until('the lease runs out', async () => (await monitor.due(ref, 1)) === undefined)
    assert.equal(await monitor.proceed(ref, aStep({ state: '"late"', ends: [anEnd(id!)] })), false)
    assert.equal(await monitor.letGo(ref), 'lost')
    assert.equal((await notification(backend, id!)).status, 'pending')

    const taken = await monitor.take({ channel: ref.channel, token: 'next', leaseMs: longMs })
    assert.ok(taken.taken)
    assert.equal(taken.state, null, 'the lost sender kept nothing')
    assert.equal(await monitor.letGo(ref), 'lost')
    assert.deepEqual(await due(backend, { channel: ref.channel, token: 'next' }), [id])
  })

  test('a sender without the channel’s token can neither write, renew nor release', async () => {
    await using backend = await open()
    const { monitor } = backend
    const [id] = await notify(backend, {})
    const ref = await take(backend)
    const otherSender = { channel: ref.channel, token: 'other sender' }
    assert.equal(await monitor.due(otherSender, 10), undefined)
    const step = aStep({ state: '"theirs"', ends: [anEnd(id!)], begin: [{ id: id!, repeat: true }] })
    assert.equal(await monitor.proceed(otherSender, step), false)
    assert.equal(await monitor.letGo(otherSender), 'lost')
    const { status, attempt, possibleRepeat } = await notification(backend, id!)
    assert.deepEqual(
      { status, attempt, possibleRepeat },
      { status: 'pending', attempt: 0, possibleRepeat: false },
    )
    assert.deepEqual(await due(backend, ref), [id])
    const free = { channel: hash('free'), token: 'other sender' }
    assert.equal(await monitor.due(free, 1), undefined)
    assert.equal(await monitor.letGo(free), 'lost')
  })

  test('each step renews the lease and stores the channel’s state for the next sender', async () => {
    await using backend = await open()
    const { monitor } = backend
    const ref = await take(backend, { leaseMs: 1_000 })
    for (let step = 0; step < 4; step++) {
      assert.equal(await monitor.proceed(ref, aStep({ leaseMs: longMs, state: `{"sent": ${step}}` })), true)
    }
    const before = (await monitor.due(ref, 1))!.now
    await until('the first lease is over', async () => (await monitor.due(ref, 1))!.now > before + 1_000)
    assert.equal(await monitor.letGo(ref), 'released')
    const taken = await monitor.take({ ...ref, token: 'next', leaseMs: longMs })
    assert.ok(taken.taken)
    assert.equal(taken.state, '{"sent": 3}')
    assert.ok(taken.now > before)
    await monitor.proceed({ ...ref, token: 'next' }, aStep({ state: null }))
    const again = await monitor.take({ ...ref, token: 'next', leaseMs: longMs })
    assert.equal(again.taken && again.state, null)
  })

  test('taking one channel leaves the other channels free', async () => {
    await using backend = await open()
    await take(backend, { channel: 'robot' })
    await take(backend, { channel: 'another' })
  })
}
