import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { startFeishu } from '../../support/robots/index.ts'
import { aChannel, aMessage, aReply, local, notify } from './messages.ts'

const secret = 'feishu-secret-1'
const bot = 'https://open.feishu.cn/open-apis/bot/v2/hook/token-1'

test('a signed bot with a keyword accepts posts and text, and mentions', async () => {
  await using feishu = await startFeishu({ secret, keyword: 'alarm' })
  await using outbound = createOutbound({ allowPrivate: local })
  const config = { type: 'feishu', url: feishu.url, secret, keyword: 'alarm', mentioned: ['all', 'ou_1'] }
  for (const more of [{}, { format: 'text' }]) {
    const verdicts = await notify(outbound, aChannel({ ...config, ...more }), aMessage(['Court 1: 0 → 2']))
    assert.deepEqual(verdicts, [{ kind: 'sent' }])
  }
  assert.deepEqual(
    feishu.messages.map(({ text }) => text),
    [
      'Venues changed\n- Court 1: 0 → 2\n@all@ou_1\nalarm',
      'Venues changed\n- Court 1: 0 → 2\n<at user_id="all"></at> <at user_id="ou_1"></at>\nalarm',
    ],
  )
})

test('a message with only a title is accepted', async () => {
  await using feishu = await startFeishu()
  await using outbound = createOutbound({ allowPrivate: local })
  const message = aMessage([], { kind: 'test', title: 'A test' })
  assert.deepEqual(await notify(outbound, aChannel({ type: 'feishu', url: feishu.url }), message), [
    { kind: 'sent' },
  ])
})

test('the signature covers an empty text, is keyed by seconds and secret, and is in the body', () => {
  const channel = aChannel({ type: 'feishu', url: bot, secret })
  const [request] = channel.compose(aMessage(['x']), channel.robots[0]!, 1_700_000_000_999)
  const { timestamp, sign } = JSON.parse(request!.body)
  assert.equal(timestamp, '1700000000')
  assert.equal(sign, createHmac('sha256', `1700000000\n${secret}`).update('').digest('base64'))
  assert.equal(request?.url, bot)
})

test('a wrong secret and a missing keyword are refusals', async () => {
  await using feishu = await startFeishu({ secret, keyword: 'alarm' })
  await using outbound = createOutbound({ allowPrivate: local })
  const wrong = { 19021: { secret: 'something-else' }, 19024: { secret } }
  for (const [code, more] of Object.entries(wrong)) {
    const [verdict] = await notify(
      outbound,
      aChannel({ type: 'feishu', url: feishu.url, ...more }),
      aMessage(['x']),
    )
    assert.equal(verdict?.kind, 'refused')
    assert.match(verdict.reason, new RegExp(code))
  }
})

test('the sixth message within a second is retried and costs no attempt', async () => {
  const now = Date.now()
  await using feishu = await startFeishu({ now: () => now })
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({ type: 'feishu', url: feishu.url })
  assert.deepEqual(channel.limits.burst, { messages: 5, perMs: 1_000 })
  assert.deepEqual(channel.limits.rate, { messages: 100, perMs: 60_000 })
  for (let n = 0; n < 5; n += 1) await notify(outbound, channel, aMessage([`${n}`]))
  const [verdict] = await notify(outbound, channel, aMessage(['6']))
  assert.equal(verdict?.kind === 'retry' && verdict.penaltyMs, 10_000)
  assert.equal(feishu.messages.length, 5)
})

test('every code has its meaning, and 9499 the meaning of its message', () => {
  const { judge } = aChannel({ type: 'feishu', url: bot })
  const kinds: Record<number, string> = {
    0: 'sent',
    11232: 'retry',
    99991400: 'retry',
    123456: 'retry',
    19001: 'refused',
    19002: 'refused',
    19021: 'refused',
    19022: 'refused',
    19024: 'refused',
  }
  for (const [code, kind] of Object.entries(kinds)) {
    assert.equal(judge(aReply(200, { code: Number(code), msg: 'words' })).kind, kind, code)
    // Some come with status 400.
    if (code !== '0') assert.equal(judge(aReply(400, { code: Number(code), msg: '' })).kind, kind, code)
  }
  assert.equal(judge(aReply(200, { StatusCode: 0, StatusMessage: 'success' })).kind, 'sent')
  assert.equal(judge(aReply(200, { code: 9499, msg: 'Bad Request' })).kind, 'refused')
  const busy = judge(aReply(200, { code: 9499, msg: 'too many request' }))
  assert.equal(busy.kind === 'retry' && busy.penaltyMs, 10_000)
  const verdict = judge(aReply(429, { code: 99991400, msg: '' }, { 'x-ogw-ratelimit-reset': '7' }))
  assert.equal(verdict.kind === 'retry' && verdict.penaltyMs, 7_000)
})
