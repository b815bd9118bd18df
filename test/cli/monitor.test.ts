import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { startReceiver } from '../support/robots/index.ts'
import { createWorkplace } from './command.ts'

/** `serve` as operators run it: settings from a file, killed in the middle, started again. */

async function post(url: string, path: string, body: unknown, namespace = 'default') {
  const headers = { 'content-type': 'application/json', 'signalbox-namespace': namespace }
  const reply = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  // biome-ignore lint/suspicious/noExplicitAny: what a test reads from it is what it tests.
  return { status: reply.status, body: (await reply.json()) as any }
}

const venue = (taskId: string, state: unknown) => ({
  taskId,
  source: 'courts',
  timeSlot: '18:00',
  observedAt: Date.now(),
  venues: [{ venueId: 'north', state }],
})

test.concurrent('the config file may contain the settings of the monitor and of guards', async () => {
  using place = createWorkplace()
  const file = {
    monitor: {
      distributed: { lock_ttl: '20s', notification_interval: '1h', event_dedup_ttl: 60_000 },
      performance: { batch_size: 7, max_concurrent: 3 },
      keep: '1d',
    },
    once: { when_down: 'closed', timeout: '1s' },
    allowPrivate: ['127.0.0.0/8'],
  }
  writeFileSync(join(place.folder, 'signalbox.config.json'), JSON.stringify(file))
  const { code, out, err } = await place.call(['config', 'print', '--json'])
  assert.deepEqual([code, err], [0, ''])
  const { settings } = JSON.parse(out)
  const expected = {
    monitorDistributedLockTtl: '20s',
    monitorDistributedNotificationInterval: '1h',
    monitorDistributedEventDedupTtl: '1m',
    monitorPerformanceBatchSize: 7,
    monitorPerformanceMaxConcurrent: 3,
    monitorKeep: '1d',
    onceWhenDown: 'closed',
    onceTimeout: '1s',
    allowPrivate: ['127.0.0.0/8'],
  }
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(settings[name].value, value, name)
  await using server = await place.serve(['--log-level=error'])
  const channel = { type: 'webhook', url: 'http://127.0.0.1:9/x', secret: 'a-secret-of-mine' }
  const made = await post(server.url, '/v1/monitor/subscriptions', { name: 'n', channel })
  assert.deepEqual([made.status, made.body.windowMs], [201, 3_600_000])
})

test.concurrent('a server without settings refuses private addresses, and accepts them with --allow-private', async () => {
  using place = createWorkplace()
  await using receiver = await startReceiver()
  const channel = { type: 'webhook', url: receiver.url, secret: receiver.secret }
  {
    await using server = await place.serve(['--log-level=error'])
    const refused = await post(server.url, '/v1/monitor/subscriptions', { name: 'n', channel })
    assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_argument'])
  }
  await using server = await place.serve(['--log-level=error', '--allow-private=127.0.0.0/8'])
  const taken = await post(server.url, '/v1/monitor/subscriptions', { name: 'n', channel })
  assert.equal(taken.status, 201)
})

test.concurrent('a killed server sends its pending notifications after its restart, in every namespace', async () => {
  using place = createWorkplace()
  await using receiver = await startReceiver()
  const allow = { SIGNALBOX_ALLOW_PRIVATE: '127.0.0.0/8' }
  const channel = { type: 'webhook', url: receiver.url, secret: receiver.secret }
  receiver.misbehave('hang')
  {
    await using server = await place.serve(['--log-level=error'], allow)
    const subscription = { name: 'n', channel, notifyNew: true }
    await post(server.url, '/v1/monitor/subscriptions', subscription, 'shop')
    const notified = await post(server.url, '/v1/monitor/report', venue('1', 'free'), 'shop')
    assert.equal(notified.body.notified, 1)
    server.kill('SIGKILL')
    await server.ended
  }
  receiver.misbehave(null)
  await using server = await place.serve(['--log-level=error'], allow)
  // The sender may have been killed while sending; then another one waits for the end of its lease.
  await receiver.waitFor(1, 60_000)
  assert.equal(receiver.messages[0]!.body.data.changes[0].to, 'free')
  assert.equal(server.err(), '')
}, 90_000)
