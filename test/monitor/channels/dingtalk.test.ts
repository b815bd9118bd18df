import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { startDingTalk } from '../../support/robots/index.ts'
import { aChannel, aMessage, aReply, local, notify } from './messages.ts'

const secret = 'SEC0123456789abcdef'
const robot = 'https://oapi.dingtalk.com/robot/send?access_token=token-1'

test('a signed robot with a keyword accepts every format', async () => {
  await using dingtalk = await startDingTalk({ secret, keyword: '监控' })
  await using outbound = createOutbound({ allowPrivate: local })
  const button = { title: 'Open', url: 'https://example.org/' }
  for (const more of [{}, { format: 'text' }, { format: 'actionCard', button }]) {
    const channel = aChannel({ type: 'dingtalk', url: dingtalk.url, secret, keyword: '监控', ...more })
    assert.deepEqual(await notify(outbound, channel, aMessage(['Court 1: 0 → 2'])), [{ kind: 'sent' }])
  }
  assert.deepEqual(
    dingtalk.messages.map(({ body }) => body.msgtype),
    ['markdown', 'text', 'actionCard'],
  )
  assert.equal(dingtalk.messages[0]?.text, '### Venues changed\n\n- Court 1: 0 → 2\n\n监控')
  assert.equal(dingtalk.messages[1]?.text, 'Venues changed\n- Court 1: 0 → 2\n\n监控')
  assert.equal(dingtalk.messages[2]?.body.actionCard.singleURL, 'https://example.org/')
  assert.equal(dingtalk.connections, 1)
})

test('a message that contains the keyword does not get it twice', () => {
  const channel = aChannel({ type: 'dingtalk', url: robot, format: 'text', keyword: 'Court' })
  const [request] = channel.compose(aMessage(['Court 1']), channel.robots[0]!, 0)
  assert.equal(JSON.parse(request!.body).text.content, 'Venues changed\n- Court 1')
})

test('the signature covers time and secret, is keyed by the secret, and is encoded for a query', () => {
  const channel = aChannel({ type: 'dingtalk', url: robot, secret })
  const [request] = channel.compose(aMessage(['x']), channel.robots[0]!, 1_700_000_000_123.7)
  const sign = createHmac('sha256', secret).update(`1700000000123\n${secret}`).digest('base64')
  assert.equal(request?.url, `${robot}&timestamp=1700000000123&sign=${encodeURIComponent(sign)}`)
  // Made once with OpenSSL: printf '1700000000123\nSEC0123456789abcdef' | openssl dgst -sha256 -hmac SEC… -binary | base64
  assert.equal(sign, 'V9VP5gL2WDsEZvZQHnbd9k4n+p56ibcLMh+WKMZRQas=')
})

test('a wrong secret, a wrong keyword and a clock an hour off are permanent refusals', async () => {
  await using dingtalk = await startDingTalk({ secret, keyword: 'alarm' })
  await using outbound = createOutbound({ allowPrivate: local })
  const right = { type: 'dingtalk', url: dingtalk.url, secret, keyword: 'alarm' }
  const wrong = [
    { config: { ...right, secret: 'SECxxxxxxxxxx' }, now: Date.now() },
    { config: { ...right, keyword: 'none' }, now: Date.now() },
    { config: right, now: Date.now() - 3_700_000 },
  ]
  for (const { config, now } of wrong) {
    const [verdict] = await notify(outbound, aChannel(config), aMessage(['x']), now)
    assert.equal(verdict?.kind, 'refused')
    assert.match(verdict.reason, /310000/)
  }
  assert.equal(dingtalk.messages.length, 0)
  assert.equal(dingtalk.refusals.length, 3)
})

test('a robot that got one message too many gets none for ten minutes', async () => {
  let now = Date.now()
  await using dingtalk = await startDingTalk({ now: () => now })
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({ type: 'dingtalk', url: dingtalk.url })
  for (let n = 0; n < 20; n += 1) {
    assert.deepEqual(await notify(outbound, channel, aMessage([`${n}`])), [{ kind: 'sent' }])
  }
  const [verdict] = await notify(outbound, channel, aMessage(['one too many']))
  assert.equal(verdict?.kind === 'retry' && verdict.penaltyMs, 600_000)
  // A minute later the robot is still silent; after ten it is not.
  now += 61_000
  assert.equal((await notify(outbound, channel, aMessage(['too early'])))[0]?.kind, 'retry')
  now += 600_000
  assert.deepEqual(await notify(outbound, channel, aMessage(['in time'])), [{ kind: 'sent' }])
})

test('people are mentioned in the first part, in the text and in the mention field', async () => {
  await using dingtalk = await startDingTalk()
  await using outbound = createOutbound({ allowPrivate: local })
  const at = { atMobiles: ['13800000000'], atUserIds: ['user_1'], isAtAll: true }
  const channel = aChannel({ type: 'dingtalk', url: dingtalk.url, ...at })
  const lines = Array.from({ length: 400 }, (_, n) => `Court ${n}: ${'x'.repeat(60)}`)
  await notify(outbound, channel, aMessage(lines))
  const [first, ...others] = dingtalk.messages
  assert.deepEqual(first?.body.at, at)
  assert.match(first?.text ?? '', /@13800000000 @user_1$/)
  assert.ok(others.length > 0)
  for (const { body, text } of others) {
    assert.deepEqual(body.at, { isAtAll: false })
    assert.doesNotMatch(text, /@13800000000/)
  }
})

test('every code in an answer of status 200 has its meaning', () => {
  const { judge } = aChannel({ type: 'dingtalk', url: robot })
  const kinds: Record<number, string> = {
    0: 'sent',
    [-1]: 'retry',
    130101: 'retry',
    410100: 'retry',
    999999: 'retry',
    310000: 'refused',
    300005: 'refused',
    400101: 'refused',
    400102: 'refused',
    430102: 'refused',
    460101: 'refused',
    90030: 'refused',
  }
  for (const [errcode, kind] of Object.entries(kinds)) {
    const verdict = judge(aReply(200, { errcode: Number(errcode), errmsg: 'words' }))
    assert.equal(verdict.kind, kind, errcode)
    if (verdict.kind !== 'sent') assert.match(verdict.reason, new RegExp(`code ${errcode}: words`))
  }
})

test('a missing or foreign answer leaves the outcome unknown', async () => {
  await using dingtalk = await startDingTalk()
  await using outbound = createOutbound({ allowPrivate: local, timeoutMs: 300 })
  const channel = aChannel({ type: 'dingtalk', url: dingtalk.url })
  const kinds: Record<string, string | undefined> = {}
  for (const how of ['500', 'nonsense', 'hang', 'close', 'takeAndClose'] as const) {
    dingtalk.misbehave(how, 1)
    kinds[how] = (await notify(outbound, channel, aMessage([how])))[0]?.kind
  }
  const unknown = 'unknown'
  assert.deepEqual(kinds, {
    500: 'retry',
    nonsense: unknown,
    hang: unknown,
    close: unknown,
    takeAndClose: unknown,
  })
  assert.deepEqual(
    dingtalk.messages.map(({ text }) => text.endsWith('takeAndClose')),
    [true],
  )
  await dingtalk.close()
  assert.equal((await notify(outbound, channel, aMessage(['gone'])))[0]?.kind, 'retry')
})

test('a status without a code in the body has its meaning', () => {
  const { judge } = aChannel({ type: 'dingtalk', url: robot })
  const kinds: Record<number, string> = {
    200: 'unknown',
    302: 'refused',
    400: 'refused',
    403: 'refused',
    404: 'refused',
    408: 'retry',
    429: 'retry',
    500: 'retry',
    502: 'unknown',
    503: 'retry',
    504: 'unknown',
  }
  for (const [status, kind] of Object.entries(kinds)) {
    for (const body of ['', '<html>', '[]', 'null', '{"errcode":"0"}']) {
      assert.equal(judge(aReply(Number(status), body)).kind, kind, `${status} ${body}`)
    }
  }
  // A code of success in a failed answer is no success.
  assert.equal(judge(aReply(500, { errcode: 0 })).kind, 'retry')
})
