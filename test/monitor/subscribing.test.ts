import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { test } from 'vitest'
import { open } from '../../src/index.ts'
import { monitorDefaults, resolveMonitorOptions } from '../../src/monitor/index.ts'
import { openStand, place, webhook } from './stand.ts'

const secret = 'SEC-do-not-show-this'
const robot = {
  type: 'dingtalk' as const,
  url: 'https://oapi.dingtalk.com/robot/send?access_token=do-not-show-that',
  secret,
}

test('a new subscription has all defaults, and shows no secret', async () => {
  await using stand = await openStand({ notificationIntervalMs: '2m' })
  const made = await stand.subscribe({ channel: robot, match: { source: ['gym', 'pool'] } })
  const { id, channel, ...rest } = made
  assert.equal(channel.type, 'dingtalk')
  assert.deepEqual(rest, {
    name: 'front desk',
    match: { source: ['gym', 'pool'] },
    windowMs: 120_000,
    notifyNew: false,
    reconcile: false,
    digestMs: 0,
    throttle: null,
    flap: null,
    template: null,
    onAmbiguous: 'resend',
    maxRetries: 3,
    retryInMs: 5_000,
    createdAt: stand.now,
  })
  assert.deepEqual(await stand.monitor.subscriptions(), [made])
  await stand.see({ a: 'A' })
  await stand.see({ a: 'B' })
  const seen = [
    await stand.monitor.subscriptions(),
    await stand.monitor.notifications(),
    await stand.monitor.explain({ ...place, venueId: 'a' }),
  ]
  assert.doesNotMatch(inspect(seen, { depth: 20 }), /do-not-show/)
  assert.equal(await stand.monitor.unsubscribe(id), true)
  assert.equal(await stand.monitor.unsubscribe(id), false)
  assert.deepEqual(await stand.monitor.subscriptions(), [])
})

test('an invalid subscription is refused by field name, without a secret in the message', async () => {
  await using stand = await openStand()
  const wrong: readonly object[] = [
    { name: '' },
    { match: { venue: 'a' } },
    { match: { source: [] } },
    { match: { source: { prefix: '' } } },
    { match: { source: 7 } },
    { channel: { ...robot, url: 'https://127.0.0.1/do-not-show' } },
    { channel: { ...robot, url: 'https://169.254.169.254/do-not-show' } },
    { channel: { ...robot, type: 'pigeon' } },
    { channel: { ...robot, secret: 7 } },
    { windowMs: -1 },
    { notifyNew: 'yes' },
    { throttle: { max: 0, perMs: 1 } },
    { throttle: { max: 1 } },
    { flap: { changes: 100, withinMs: 1 } },
    { template: '{nonsense}' },
    { onAmbiguous: 'maybe' },
    { maxRetries: 101 },
    { retries: 1 },
  ]
  for (const options of wrong) {
    await assert.rejects(stand.subscribe({ channel: robot, ...options }), (error) => {
      assert.equal((error as { code?: string }).code, 'invalid_argument', inspect(options))
      assert.doesNotMatch(inspect(error, { depth: 20 }), /do-not-show/)
      return true
    })
  }
  assert.deepEqual(await stand.monitor.subscriptions(), [])
})

test('a private address is accepted where it is allowed, and shown as refused once it is not', async () => {
  await using stand = await openStand({ allowPrivate: ['127.0.0.0/8'] })
  const channel = { ...webhook, url: 'http://127.0.0.1:9/hook' }
  await stand.subscribe({ channel })
  await using stricter = await openStand()
  await assert.rejects(stricter.subscribe({ channel }), { code: 'invalid_argument' })
  const { subscriptions } = await stand.backend.monitor.rules()
  await stricter.backend.monitor.subscribe(subscriptions[0]!)
  const [shown] = await stricter.monitor.subscriptions()
  assert.deepEqual(shown?.channel, { type: 'webhook' as const, shown: 'refused', secrets: 'plain' })
})

test('options have the documented defaults, and errors name the wrong option', () => {
  assert.deepEqual(resolveMonitorOptions(), monitorDefaults)
  assert.deepEqual(resolveMonitorOptions({ lockTtlMs: '30s', notificationIntervalMs: '5m' }), monitorDefaults)
  const wrong: readonly [object, RegExp][] = [
    [{ lockTtlMs: '1 week' }, /monitor\.lockTtlMs/],
    [{ lockTtl: 1 }, /lockTtl/],
    [{ batchSize: 0 }, /monitor\.batchSize/],
    [{ allowPrivate: ['everywhere'] }, /allowPrivate/],
    [{ ignore: 'updatedAt' }, /monitor\.ignore/],
  ]
  for (const [options, message] of wrong) assert.throws(() => resolveMonitorOptions(options), message)
})

test('a box has a monitor that shares its counters with its guards', async () => {
  await using box = await open('memory:', { monitor: { batchSize: 10 }, allowPrivate: ['10.0.0.0/8'] })
  await box.monitor.subscribe({ name: 'desk', channel: { ...webhook, url: 'http://10.1.2.3/' } })
  const report = { ...place, observedAt: Date.now() }
  await box.monitor.report({ ...report, taskId: '1', venues: [{ venueId: 'a', state: 1 }] })
  const venues = [{ venueId: 'a', state: 2 }]
  assert.equal((await box.monitor.report({ ...report, taskId: '2', venues })).notified, 1)
  const { lock_acquired_count, unique_events } = box.once.stats()
  assert.deepEqual([lock_acquired_count, unique_events], [2, 1])
  await assert.rejects(open('memory:', { monitor: { batchSize: 0 } }), { code: 'invalid_argument' })
})
