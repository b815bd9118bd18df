import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { startWeCom } from '../../support/robots/index.ts'
import { aChannel, aMessage, aReply, local, notify } from './messages.ts'

test('a robot accepts Markdown and text, each with its kind of mentions', async () => {
  await using wecom = await startWeCom()
  await using outbound = createOutbound({ allowPrivate: local })
  const url = wecom.url
  const markdown = aChannel({ type: 'wecom', url, mentioned: ['wang'] })
  const text = aChannel({
    type: 'wecom',
    url,
    format: 'text',
    mentioned: ['wang', '@all'],
    mentionedMobiles: ['13800000000'],
  })
  assert.deepEqual(await notify(outbound, markdown, aMessage(['Court 1'])), [{ kind: 'sent' }])
  assert.deepEqual(await notify(outbound, text, aMessage(['Court 1'])), [{ kind: 'sent' }])
  assert.equal(wecom.messages[0]?.text, '### Venues changed\n- Court 1\n<@wang>')
  assert.deepEqual(wecom.messages[1]?.body.text, {
    content: 'Venues changed\n- Court 1',
    mentioned_list: ['wang', '@all'],
    mentioned_mobile_list: ['13800000000'],
  })
})

test('the 21st message within a minute is retried after the minute', async () => {
  const now = Date.now()
  await using wecom = await startWeCom({ now: () => now })
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({ type: 'wecom', url: wecom.url })
  for (let n = 0; n < 20; n += 1) await notify(outbound, channel, aMessage([`${n}`]))
  const [verdict] = await notify(outbound, channel, aMessage(['one too many']))
  assert.equal(verdict?.kind === 'retry' && verdict.penaltyMs, 60_000)
  assert.equal(wecom.messages.length, 20)
})

test('every code has its meaning', () => {
  const { judge } = aChannel({
    type: 'wecom',
    url: 'https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=key-1',
  })
  const kinds: Record<number, string> = {
    0: 'sent',
    [-1]: 'retry',
    45009: 'retry',
    45033: 'retry',
    77777: 'retry',
    40008: 'refused',
    40058: 'refused',
    44004: 'refused',
    93000: 'refused',
  }
  for (const [errcode, kind] of Object.entries(kinds)) {
    assert.equal(judge(aReply(200, { errcode: Number(errcode), errmsg: 'words' })).kind, kind, errcode)
  }
})
