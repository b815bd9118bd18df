import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { startSlack } from '../../support/robots/index.ts'
import { aChannel, aMessage, aReply, local, notify } from './messages.ts'

test('a webhook accepts a message, and refuses a message above its rate with a retry time', async () => {
  const now = Date.now()
  await using slack = await startSlack({ burst: 1, now: () => now })
  await using outbound = createOutbound({ allowPrivate: local })
  const channel = aChannel({ type: 'slack', url: slack.url })
  assert.deepEqual(await notify(outbound, channel, aMessage(['Court 1', 'Court 2'])), [{ kind: 'sent' }])
  assert.equal(slack.messages[0]?.text, 'Venues changed\n• Court 1\n• Court 2')
  const [verdict] = await notify(outbound, channel, aMessage(['x']))
  assert.deepEqual(verdict, { kind: 'retry', reason: 'HTTP 429: rate_limited', penaltyMs: 1_000 })
})

test('each status and each error text has its meaning', () => {
  const { judge } = aChannel({ type: 'slack', url: 'https://hooks.slack.com/services/T0/B0/token' })
  const refused: [number, string][] = [
    [400, 'invalid_payload'],
    [403, 'action_prohibited'],
    [404, 'channel_not_found'],
    [410, 'channel_is_archived'],
  ]
  for (const [status, word] of refused) {
    assert.deepEqual(judge(aReply(status, word)), { kind: 'refused', reason: `HTTP ${status}: ${word}` })
  }
  assert.deepEqual(judge(aReply(200, 'ok')), { kind: 'sent' })
  assert.equal(judge(aReply(200, 'welcome to our proxy')).kind, 'unknown')
  assert.equal(judge(aReply(500, 'rollup_error')).kind, 'retry')
})

test('Retry-After is read as seconds and as a date, and never exceeds an hour', () => {
  const { judge } = aChannel({ type: 'slack', url: 'https://hooks.slack.com/services/T0/B0/token' })
  const wait = (value: string): number | undefined => {
    const verdict = judge(aReply(429, '', { 'retry-after': value }))
    return verdict.kind === 'retry' ? verdict.penaltyMs : undefined
  }
  assert.equal(wait('30'), 30_000)
  assert.equal(wait('0'), 1_000)
  assert.equal(wait('999999999'), 3_600_000)
  assert.equal(wait('soon'), 1_000)
  assert.equal(wait(new Date(Date.now() - 5_000).toUTCString()), 1_000)
  const later = wait(new Date(Date.now() + 60_000).toUTCString()) ?? 0
  assert.ok(later > 50_000 && later <= 60_000, String(later))
})
