import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'vitest'
import { verifyWebhook, type WebhookCheck } from '../../../src/monitor/channels/webhook.ts'
import { aChannel, aMessage } from './messages.ts'

const secret = 'webhook-secret-1'
const now = 1_700_000_000_000

function received(sentAt: number = now): Pick<WebhookCheck, 'body'> & { headers: Record<string, string> } {
  const channel = aChannel({ type: 'webhook', url: 'https://example.org/hook', secret })
  const [request] = channel.compose(aMessage(['Court 1']), channel.robots[0]!, sentAt)
  return { headers: { ...request!.headers }, body: request!.body }
}

const check = { secret, now: () => now }

test('a genuine message is accepted, with Node’s headers or Headers, as text or as bytes', async () => {
  const { headers, body } = received()
  const believed = { valid: true, id: 'message-1', sentAt: now }
  assert.deepEqual(await verifyWebhook({ ...check, headers, body }), believed)
  assert.deepEqual(await verifyWebhook({ ...check, headers: new Headers(headers), body }), believed)
  assert.deepEqual(await verifyWebhook({ ...check, headers, body: Buffer.from(body as string) }), believed)
  const upper = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]),
  )
  assert.deepEqual(await verifyWebhook({ ...check, headers: upper, body }), believed)
})

test('an altered body, id or time, another secret and a bare signature are refused', async () => {
  const { headers, body } = received()
  const altered: Partial<WebhookCheck>[] = [
    { body: `${body} ` },
    { body: (body as string).replace('Court 1', 'Court 2') },
    { headers: { ...headers, 'webhook-id': 'message-2' } },
    { headers: { ...headers, 'webhook-timestamp': String(now / 1_000 + 1) } },
    { headers: { ...headers, 'webhook-signature': headers['webhook-signature']!.slice(3) } },
    { headers: { ...headers, 'webhook-signature': 'v1,' } },
    { secret: 'another-secret' },
    { secret: [] },
  ]
  for (const change of altered) {
    const verdict = await verifyWebhook({ ...check, headers, body, ...change })
    assert.deepEqual(verdict, { valid: false, problem: 'bad_signature' }, JSON.stringify(change))
  }
})

test('a message that is ten minutes old, or from the future, is refused', async () => {
  const problemOf = async (sentAt: number): Promise<unknown> => {
    const verdict = await verifyWebhook({ ...check, ...received(sentAt) })
    return verdict.valid ? undefined : verdict.problem
  }
  assert.equal(await problemOf(now - 600_000), 'too_old')
  assert.equal(await problemOf(now - 301_000), 'too_old')
  assert.equal(await problemOf(now - 299_000), undefined)
  assert.equal(await problemOf(now + 299_000), undefined)
  assert.equal(await problemOf(now + 301_000), 'too_new')
})

test('a repeated id is a replay, and ids are looked up only after the signature is verified', async () => {
  const ids: string[] = []
  const seen = async (id: string): Promise<boolean> => ids.includes(id) || ids.push(id) === 0
  const { headers, body } = received()
  const forged = await verifyWebhook({ ...check, headers, body: '{}', seen })
  assert.equal(forged.valid, false)
  assert.deepEqual(ids, [])
  assert.equal((await verifyWebhook({ ...check, headers, body, seen })).valid, true)
  assert.deepEqual(await verifyWebhook({ ...check, headers, body, seen }), {
    valid: false,
    problem: 'replayed',
  })
})

test('missing, doubled or malformed headers are refused as incomplete', async () => {
  const { headers, body } = received()
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    for (const value of [undefined, '', [headers[name]!, headers[name]!]]) {
      const verdict = await verifyWebhook({ ...check, headers: { ...headers, [name]: value }, body })
      assert.deepEqual(verdict, { valid: false, problem: 'incomplete' }, name)
    }
  }
  const verdict = await verifyWebhook({ ...check, headers: { ...headers, 'webhook-timestamp': '1e9' }, body })
  assert.deepEqual(verdict, { valid: false, problem: 'incomplete' })
})

test('while a secret is replaced, both secrets and any of several signatures are accepted', async () => {
  const { headers, body } = received()
  assert.equal(
    (await verifyWebhook({ ...check, secret: ['new-secret-1', secret], headers, body })).valid,
    true,
  )
  const both = { ...headers, 'webhook-signature': `v1,AAAA v2,x ${headers['webhook-signature']}` }
  assert.equal((await verifyWebhook({ ...check, headers: both, body })).valid, true)
})

test('the published example of Standard Webhooks is accepted', async () => {
  const whsec = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const body = '{"test": 2432232314}'
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  }
  const verdict = await verifyWebhook({ headers, body, secret: whsec, now: () => 1_614_265_330_000 })
  assert.equal(verdict.valid, true)
  const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64')
  const own = createHmac('sha256', key)
    .update(`msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.${body}`)
    .digest('base64')
  assert.equal(`v1,${own}`, headers['webhook-signature'])
})
