import assert from 'node:assert/strict'
import { test } from 'vitest'
import { startDingTalk } from '../../../test/support/robots/index.ts'
import { parseChannel } from '../channels/index.ts'
import { createOutbound } from './outbound.ts'
import { sendTest } from './sender.ts'

const allowPrivate = ['127.0.0.0/8']

test('a test message arrives now, or the answer gives the mistake, without secrets', async () => {
  const secret = 'SEC0123456789abcdef'
  await using robot = await startDingTalk({ secret })
  await using outbound = createOutbound({ allowPrivate })
  const parts = { outbound, parseChannel: (config: unknown) => parseChannel(config, { allowPrivate }) }

  const good = await sendTest({ type: 'dingtalk', url: robot.url, secret }, parts)
  assert.equal(good.ok, true)
  assert.equal(good.reason, null)
  assert.match(robot.messages[0]!.text, /test/i)

  const wrong = await sendTest({ type: 'dingtalk', url: robot.url, secret: 'SECwrongwrongwrong' }, parts)
  assert.equal(wrong.ok, false)
  assert.match(wrong.reason!, /310000/)
  assert.ok(!JSON.stringify(wrong).includes('SECwrong') && !JSON.stringify(wrong).includes('ding-token'))

  const unusable = await sendTest({ type: 'dingtalk', url: 'http://10.0.0.1/x?access_token=abc' }, parts)
  assert.equal(unusable.ok, false)
  assert.equal(unusable.shown, null)
  assert.ok(!JSON.stringify(unusable).includes('abc'))
})
