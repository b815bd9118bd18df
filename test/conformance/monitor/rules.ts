/** Subscriptions and silences, and the revision by which a report knows that they changed. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import { inGrowingSpans } from '../../support/spans.ts'
import type { Candidate } from '../candidates.ts'
import {
  aSubject,
  aSubscription,
  begin,
  known,
  longMs,
  notification,
  notify,
  now,
  past,
  present,
  shortMs,
  take,
} from './making.ts'

export function rulesContract({ open }: Candidate): void {
  test('the revision rises with every change of the rules, and only then', async () => {
    await using backend = await open()
    const { monitor } = backend
    assert.deepEqual(await monitor.rules(), { revision: 0, subscriptions: [], silences: [] })
    const subscription = aSubscription()
    await monitor.subscribe(subscription)
    assert.equal((await monitor.rules()).revision, 1)
    assert.equal((await monitor.known({ subjects: [], throttles: [] })).revision, 1)
    await monitor.silence({ id: 's1', match: '{}', comment: 'works', startsAt: null, forMs: longMs })
    assert.equal((await monitor.rules()).revision, 2)
    assert.equal(await monitor.unsilence('s1'), true)
    assert.equal(await monitor.unsilence('s1'), false)
    assert.equal(await monitor.unsubscribe('unknown'), false)
    assert.equal((await monitor.rules()).revision, 3)
    assert.equal(await monitor.unsubscribe(subscription.id), true)
    assert.equal(await monitor.unsubscribe(subscription.id), false)
    assert.deepEqual(await monitor.rules(), { revision: 4, subscriptions: [], silences: [] })
  })

  test('subscriptions are stored byte for byte and listed oldest first', async () => {
    await using backend = await open()
    const first = aSubscription({ name: '前台 🎾', channel: '{"secret": "s3cret",  "url":"x"}' })
    const second = aSubscription({ options: '{"windowMs":1}' })
    await backend.monitor.subscribe(second)
    await backend.monitor.subscribe(first)
    const { subscriptions } = await backend.monitor.rules()
    assert.deepEqual(
      subscriptions.map(({ createdAt, ...rest }) => rest),
      [first, second],
    )
    const at = await now(backend)
    for (const { createdAt } of subscriptions) assert.ok(Math.abs(at - createdAt) < 10_000)
  })

  test('a channel is rewritten only by a caller that read its latest version; no rule changes', async () => {
    await using backend = await open()
    const { monitor } = backend
    const one = aSubscription({ channel: '{"secret":"Ä"}' })
    const two = aSubscription()
    await monitor.subscribe(one)
    await monitor.subscribe(two)
    assert.equal(await monitor.rewriteChannel(one.id, '{"secret":"ä"}', 'x'), false)
    assert.equal(await monitor.rewriteChannel('unknown', one.channel, 'x'), false)
    assert.equal(await monitor.rewriteChannel(one.id, one.channel, '{"sealed":"東京"}'), true)
    assert.equal(await monitor.rewriteChannel(one.id, one.channel, 'x'), false)
    const { revision, subscriptions } = await monitor.rules()
    assert.equal(revision, 2)
    assert.deepEqual(
      new Map(subscriptions.map(({ id, channel }) => [id, channel])),
      new Map([
        [one.id, '{"sealed":"東京"}'],
        [two.id, two.channel],
      ]),
    )
  })

  test('a silence starts at its time, or now, and is not among the rules after its end', async () => {
    await inGrowingSpans('the first was seen before its end', async (forMs) => {
      await using backend = await open()
      const { monitor } = backend
      const before = await now(backend)
      await monitor.silence({
        id: 'a',
        match: '{"source":"gym"}',
        comment: 'now',
        startsAt: null,
        forMs,
      })
      await monitor.silence({
        id: 'b',
        match: '{}',
        comment: 'later',
        startsAt: before + longMs,
        forMs: 5_000,
      })
      const { silences, revision } = await monitor.rules()
      if (silences.length === 1) return undefined
      const [a, b] = silences
      assert.deepEqual(b, {
        id: 'b',
        match: '{}',
        comment: 'later',
        startsAt: before + longMs,
        endsAt: before + longMs + 5_000,
      })
      assert.equal(a!.endsAt - a!.startsAt, forMs)
      assert.ok(a!.startsAt >= before)
      await past(backend, a!.endsAt)
      const later = await monitor.rules()
      assert.deepEqual(later, { ...later, revision, silences: [b] })
      return true
    })
  })

  test('unsubscribing cancels pending notifications and frees their windows; sending ones continue', async () => {
    await using backend = await open()
    const { monitor } = backend
    await present(backend)
    const subscription = aSubscription()
    await monitor.subscribe(subscription)
    const subscriptionId = subscription.id
    const [sending, pending, other] = await notify(
      backend,
      { subscriptionId },
      { subscriptionId, stateHash: 'c'.repeat(64) },
      { subscriptionId: 'another' },
    )
    await begin(backend, await take(backend), sending!)

    assert.equal(await monitor.unsubscribe(subscriptionId), true)

    const cancelled = await notification(backend, pending!)
    assert.equal(cancelled.status, 'cancelled')
    assert.ok(cancelled.finishedAt !== null)
    assert.equal((await notification(backend, sending!)).status, 'sending')
    assert.equal((await notification(backend, other!)).status, 'pending')
    const { windows } = (await known(backend, aSubject()))!
    assert.deepEqual(windows.map(({ notificationId }) => notificationId).sort(), [sending, other].sort())
  })

  test('the store knows how many notifications a throttled subscription got recently', async () => {
    await using backend = await open()
    await notify(backend, { subscriptionId: 'a' }, { subscriptionId: 'a', stateHash: 'c'.repeat(64) })
    const at = await now(backend)
    await past(backend, at + shortMs)
    await notify(backend, { subscriptionId: 'a', stateHash: 'd'.repeat(64) }, { subscriptionId: 'b' })
    const throttles = [
      { subscriptionId: 'b', perMs: longMs },
      { subscriptionId: 'a', perMs: longMs },
      { subscriptionId: 'c', perMs: longMs },
    ]
    assert.deepEqual((await backend.monitor.known({ subjects: [], throttles })).counts, [1, 3, 0])
    const { counts } = await backend.monitor.known({
      subjects: [],
      throttles: [{ subscriptionId: 'a', perMs: shortMs }],
    })
    assert.ok(counts[0]! <= 1, 'the first two were made longer ago')
  })
}
