import assert from 'node:assert/strict'
import { type Box, open } from 'signalbox'
import { signWebhook } from 'signalbox/monitor'
import { startReceiver, startSlack } from '../../support/robots/index.ts'
import { until } from '../handler-job.ts'
import { around, check, replace } from '../prelude.ts'

const receiver = await startReceiver({ secret: 'a-secret-of-yours' })
const slack = await startSlack()
replace('https://hooks.slack.com/services/…', slack.url)
replace('https://hooks.example.com/changes', receiver.url)

export let box: Box
around(async () => {
  box = await open('sqlite:signalbox.db', { allowPrivate: ['127.0.0.0/8'] })
  // Subscribers of an earlier block would be notified as well.
  for (const { id } of await box.monitor.subscriptions()) await box.monitor.unsubscribe(id)
  return () => box.close()
})

check('Channels', async ({ values: { channels } }) => {
  for (const channel of channels)
    await box.monitor.subscribe({ name: channel.type, match: { source: 'nothing' }, channel })
})
check('Notifications: sending, channels, webhooks', ({ values }) => {
  assert.deepEqual([values.ok, values.reason], [true, null])
  assert.equal(slack.messages.length, 1)
})

/** What a webhook is sent, in the order of its fields. */
const fieldsOf = (value: object): unknown =>
  Object.entries(value).map(([name, inner]) =>
    inner !== null && typeof inner === 'object' ? [name, fieldsOf(inner)] : name,
  )
check('Webhooks, and their receiver', async ({ data }) => {
  const channel = { type: 'webhook', url: receiver.url, secret: receiver.secret } as const
  await box.monitor.subscribe({ name: 'notified', match: { source: 'notified' }, channel })
  await using sender = box.monitor.sender()
  await sender.start()
  for (const [taskId, state] of [
    ['w1', 'taken'],
    ['w2', 'free'],
  ] as const) {
    const venues = [{ venueId: 'court-1', state }]
    await box.monitor.report({
      taskId,
      source: 'notified',
      timeSlot: '18:00',
      observedAt: Date.now(),
      venues,
    })
  }
  await until(() => receiver.messages.length > 0)
  assert.deepEqual(fieldsOf(data), fieldsOf(receiver.messages[0]!.body))
})

process.env.WEBHOOK_SECRET = 'whsec-0123456789'
const handled: unknown[] = []
export const handle = (change: unknown): void => void handled.push(change)
check('Webhooks, and their receiver #2', async ({ values: { receive } }) => {
  const body = JSON.stringify({ type: 'monitor.change' })
  const at = String(Math.floor(Date.now() / 1_000))
  const signature = signWebhook(process.env.WEBHOOK_SECRET!, 'msg-1', at, body)
  const headers = { 'webhook-id': 'msg-1', 'webhook-timestamp': at, 'webhook-signature': signature }
  const ask = (sent: string) =>
    receive(new Request('http://127.0.0.1', { method: 'POST', headers, body: sent }))
  assert.equal((await ask(body)).status, 204)
  assert.equal((await ask(body)).status, 204)
  assert.deepEqual(handled, [{ type: 'monitor.change' }], 'once')
  assert.equal((await ask(`${body} `)).status, 401)
})
