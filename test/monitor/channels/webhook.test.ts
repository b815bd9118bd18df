import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { startReceiver } from '../../support/robots/index.ts'
import { aChange, aChannel, aMessage, aReply, local, notify } from './messages.ts'

const secret = 'webhook-secret-1'

test('a receiver accepts a signed message with its states once, however often it is sent', async () => {
  await using receiver = await startReceiver()
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({
    type: 'webhook',
    url: receiver.url,
    secret: receiver.secret,
    headers: { Authorization: 'Bearer abc' },
  })
  const message = aMessage(['Court 1: 0 → 2'])
  assert.deepEqual(await notify(outbound, channel, message), [{ kind: 'sent' }])
  const again = { ...message, possibleRepeat: true }
  assert.deepEqual(await notify(outbound, channel, again, Date.now() + 5_000), [{ kind: 'sent' }])
  assert.deepEqual(receiver.repeats, ['message-1'])
  const [taken] = receiver.messages
  assert.equal(receiver.messages.length, 1)
  assert.equal(taken?.headers.authorization, 'Bearer abc')
  assert.deepEqual(taken?.body, {
    type: 'monitor.change',
    timestamp: '2023-11-14T22:13:20.000Z',
    data: {
      id: 'message-1',
      title: 'Venues changed',
      possibleRepeat: false,
      part: 1,
      parts: 1,
      changes: [aChange('Court 1: 0 → 2')],
    },
  })
})

test('the signature covers id, seconds and body; a whsec_ secret is base64', () => {
  const url = 'https://example.org/hook'
  const whsec = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const keys = { [secret]: Buffer.from(secret), [whsec]: Buffer.from(whsec.slice(6), 'base64') }
  for (const [given, key] of Object.entries(keys)) {
    const channel = aChannel({ type: 'webhook', url, secret: given })
    const [request] = channel.compose(aMessage(['x']), channel.robots[0]!, 1_700_000_000_999)
    const { headers, body } = request!
    const expected = createHmac('sha256', key).update(`message-1.1700000000.${body}`).digest('base64')
    assert.equal(headers['webhook-id'], 'message-1')
    assert.equal(headers['webhook-timestamp'], '1700000000')
    assert.equal(headers['webhook-signature'], `v1,${expected}`)
  }
})

test('any 2xx status is a success; other statuses have their meanings', () => {
  const { judge } = aChannel({ type: 'webhook', url: 'https://example.org/hook', secret })
  for (const status of [200, 201, 202, 204]) assert.equal(judge(aReply(status)).kind, 'sent')
  for (const status of [301, 400, 401, 404, 410, 413]) assert.equal(judge(aReply(status)).kind, 'refused')
  for (const status of [408, 429, 500, 503]) assert.equal(judge(aReply(status)).kind, 'retry')
  for (const status of [502, 504]) assert.equal(judge(aReply(status)).kind, 'unknown')
  const busy = judge(aReply(503, '', { 'retry-after': '9' }))
  assert.equal(busy.kind === 'retry' && busy.afterMs, 9_000)
})

test('a message too large for one request becomes several with different ids; a state too large is left out', async () => {
  await using receiver = await startReceiver()
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({ type: 'webhook', url: receiver.url, secret: receiver.secret })
  const message = aMessage([], {
    kind: 'digest',
    changes: [
      ...Array.from({ length: 300 }, (_, n) => aChange(`Court ${n}`, { to: 'x'.repeat(2_000) })),
      aChange('huge', { to: '"'.repeat(1_000_000) }),
    ],
  })
  const requests = channel.compose(message, channel.robots[0]!, Date.now())
  for (const { body } of requests) assert.ok(Buffer.byteLength(body) <= channel.limits.maxBytes)
  const verdicts = await notify(outbound, channel, message)
  assert.ok(verdicts.length > 2 && verdicts.every(({ kind }) => kind === 'sent'))
  const changes = receiver.messages.flatMap(({ body }) => body.data.changes)
  assert.deepEqual(
    changes.map(({ line }) => line),
    message.changes.map(({ line }) => line),
  )
  assert.deepEqual([changes.at(-1).to, changes.at(-1).statesLeftOut], [null, true])
  assert.equal(changes[0].to.length, 2_000)
  // The same message is cut the same way again, so every part keeps its id.
  assert.deepEqual(
    requests.map(({ headers }) => headers['webhook-id']),
    receiver.messages.map((_, at) => `message-1-${at + 1}`),
  )
})
