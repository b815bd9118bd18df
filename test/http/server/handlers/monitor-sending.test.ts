import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { type Misbehaviour, startDingTalk, startReceiver } from '../../../support/robots/index.ts'
import { type Stage, serving } from '../stage.ts'

/** From a report over HTTP to the message that a robot gets: the server sends on its own. */

const allowPrivate = ['127.0.0.0/8']
const slot = { source: 'courts', timeSlot: '18:00' }
let tasks = 0

async function notify(
  { ask }: Stage,
  venueId: string,
  states: readonly unknown[],
  headers = {},
): Promise<void> {
  for (const state of states) {
    const body = { taskId: `t-${++tasks}`, ...slot, observedAt: Date.now(), venues: [{ venueId, state }] }
    const reply = await ask('POST', '/v1/monitor/report', { body, headers })
    assert.equal(reply.body.status, 'processed', JSON.stringify(reply.body))
  }
}

async function notice({ ask }: Stage, isIt: (notification: Shown) => boolean): Promise<Shown> {
  const look = async () => {
    for (;;) {
      const { body } = await ask('GET', '/v1/monitor/notifications')
      const found = (body.items as Shown[]).find(isIt)
      if (found) return found
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  return within(15_000, 'the notification', look())
}

interface Shown {
  readonly id: string
  readonly status: string
  readonly attempt: number
  readonly error: { readonly message: string } | null
}

test('a reported change reaches a signed webhook, once, and is counted', async () => {
  await using receiver = await startReceiver()
  await using stage = await serving({}, 'memory:', { allowPrivate })
  const channel = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
  const tried = await stage.ask('POST', '/v1/monitor/test', { body: { channel } })
  assert.deepEqual([tried.body.ok, tried.body.reason], [true, null])
  await stage.ask('POST', '/v1/monitor/subscriptions', { body: { name: 'people', channel } })
  await notify(stage, 'north', ['free', 'taken'])
  await receiver.waitFor(2)
  const [, message] = receiver.messages
  assert.deepEqual(
    message!.body.data.changes.map(({ venueId, from, to }: Record<string, unknown>) => [venueId, from, to]),
    [['north', 'free', 'taken']],
  )
  const sent = await notice(stage, ({ status }) => status === 'sent')
  assert.deepEqual([sent.attempt, sent.error], [1, null])
  const { body } = await stage.ask('GET', '/metrics')
  const line = 'signalbox_notifications_total{namespace="default",channel="webhook",outcome="sent"} 1'
  assert.ok(body.includes(line), line)
  assert.match(body, /signalbox_loop_healthy\{loop="server\.senders"\} 1/)
  await notify(stage, 'north', ['free', 'taken'])
  await receiver.waitFor(3)
  const { body: stats } = await stage.ask('GET', '/v1/once/stats')
  assert.equal(stats.notification_dedup, 1, 'taken was notified less than five minutes ago')
  assert.equal(receiver.messages.length, 3)
})

test('a robot that fails or has another secret leaves a recorded failure, and a replay succeeds', async () => {
  const cases: readonly (Misbehaviour | 'secret')[] = ['500', 'nonsense', 'close', 'secret']
  for (const how of cases) {
    await using robot = await startDingTalk({ secret: 'SEC-of-the-robot' })
    await using stage = await serving({}, 'memory:', { allowPrivate })
    const secret = how === 'secret' ? 'SEC-of-another' : 'SEC-of-the-robot'
    const channel = { type: 'dingtalk' as const, url: robot.url, secret }
    if (how !== 'secret') robot.misbehave(how)
    const tried = await stage.ask('POST', '/v1/monitor/test', { body: { channel } })
    assert.equal(tried.body.ok, false, how)
    const options = { maxRetries: 1, retryInMs: 10, notifyNew: true }
    await stage.ask('POST', '/v1/monitor/subscriptions', { body: { name: 'people', channel, ...options } })
    await notify(stage, how, ['free'])
    const dead = await notice(stage, ({ status }) => status === 'dead')
    assert.ok(dead.error!.message.length > 0)
    assert.doesNotMatch(JSON.stringify([dead, tried.body]), /SEC-of|ding-token/)
    if (how === 'secret') continue
    robot.misbehave(null)
    const replayed = await stage.ask('POST', `/v1/monitor/notifications/${dead.id}/replay`)
    assert.deepEqual([replayed.status, replayed.body], [200, { id: dead.id, status: 'pending' }])
    await robot.waitFor(1)
    await notice(stage, ({ id, status }) => id === dead.id && status === 'sent')
  }
}, 60_000)

test('a restarted server sends pending notifications, also in a namespace without requests', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-senders-'))
  try {
    await using receiver = await startReceiver()
    const url = `sqlite:${join(folder, 'signalbox.db')}`
    {
      // Reported into the store itself, which has no sender.
      await using box = await open(url, { namespace: 'shop 2', allowPrivate })
      const channel = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
      await box.monitor.subscribe({ name: 'people', channel, notifyNew: true })
      const answer = await box.monitor.report({
        taskId: 't',
        ...slot,
        observedAt: Date.now(),
        venues: [{ venueId: 'north', state: 'free' }],
      })
      assert.equal(answer.notified, 1)
    }
    assert.equal(receiver.requests, 0)
    await using box = await open(url, { allowPrivate })
    const server = createServer({ box, port: 0 })
    try {
      await server.listen()
      await receiver.waitFor(1)
    } finally {
      await server.close()
    }
    assert.equal(receiver.messages.length, 1)
    assert.equal(receiver.messages[0]!.body.data.changes[0].venueId, 'north')
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('an ended subscription gets nothing more, and the next subscription is served again', async () => {
  await using receiver = await startReceiver()
  await using stage = await serving({}, 'memory:', { allowPrivate })
  const channel = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
  const subscribe = async () =>
    (await stage.ask('POST', '/v1/monitor/subscriptions', { body: { name: 'p', channel, notifyNew: true } }))
      .body
  const { id } = await subscribe()
  await notify(stage, 'a', [1])
  await receiver.waitFor(1)
  await stage.ask('DELETE', `/v1/monitor/subscriptions/${id}`)
  await notify(stage, 'b', [1])
  await subscribe()
  await notify(stage, 'c', [1])
  await receiver.waitFor(2)
  const notified = receiver.messages.map(({ body }) => body.data.changes[0].venueId)
  assert.deepEqual(notified, ['a', 'c'])
  const { body } = await stage.ask('GET', '/metrics')
  assert.match(
    body,
    /signalbox_notifications_total\{namespace="default",channel="webhook",outcome="sent"\} [12]\n/,
  )
})
