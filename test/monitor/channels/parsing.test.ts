import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { channelTypes, parseChannel } from '../../../src/monitor/channels/index.ts'

const canary = 'c4n4ryc4n4ry'
const dingtalk = `https://oapi.dingtalk.com/robot/send?access_token=${canary}`
const wecom = `https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=${canary}`
const feishu = `https://open.feishu.cn/open-apis/bot/v2/hook/${canary}`
const slack = `https://hooks.slack.com/services/T0/B0/${canary}`
const hook = `https://example.org/${canary}`
const nowhere: readonly string[] = []

test('an invalid value is refused by the name of its field, and no value is shown', () => {
  const wrong: [unknown, string][] = [
    [dingtalk, 'channel'],
    [null, 'channel'],
    [[], 'channel'],
    [{}, 'channel.type'],
    [{ type: canary }, 'channel.type'],
    [{ type: 'constructor' }, 'channel.type'],
    [{ type: 'dingtalk' }, 'channel.url'],
    [{ type: 'dingtalk', url: 7 }, 'channel.url'],
    [{ type: 'dingtalk', url: canary }, 'channel.url'],
    [{ type: 'dingtalk', url: `ftp://example.org/${canary}` }, 'channel.url'],
    [{ type: 'dingtalk', url: `https://user:${canary}@example.org/?access_token=x` }, 'channel.url'],
    [{ type: 'dingtalk', url: `https://example.org/${canary}` }, 'channel.url'],
    [{ type: 'dingtalk', url: `${dingtalk}${'x'.repeat(2_048)}` }, 'channel.url'],
    [{ type: 'dingtalk', url: dingtalk, secret: 7 }, 'channel.secret'],
    [{ type: 'dingtalk', url: dingtalk, secret: `${canary} ${canary}` }, 'channel.secret'],
    [{ type: 'dingtalk', url: dingtalk, secret: `${canary}\n` }, 'channel.secret'],
    [{ type: 'dingtalk', url: dingtalk, format: canary }, 'channel.format'],
    [{ type: 'dingtalk', url: dingtalk, format: 'actionCard' }, 'channel.button'],
    [{ type: 'dingtalk', url: dingtalk, button: { title: 'x', url: 'https://x' } }, 'channel.button'],
    [
      {
        type: 'dingtalk',
        url: dingtalk,
        format: 'actionCard',
        button: { title: 'x', url: `javascript:${canary}` },
      },
      'channel.button.url',
    ],
    [
      {
        type: 'dingtalk',
        url: dingtalk,
        format: 'actionCard',
        isAtAll: true,
        button: { title: 'x', url: 'https://x' },
      },
      'channel.format',
    ],
    [{ type: 'dingtalk', url: dingtalk, atMobiles: ['13800000000', canary] }, 'channel.atMobiles[1]'],
    [{ type: 'dingtalk', url: dingtalk, atMobiles: canary }, 'channel.atMobiles'],
    [{ type: 'dingtalk', url: dingtalk, atUserIds: [`${canary} x`] }, 'channel.atUserIds[0]'],
    [{ type: 'dingtalk', url: dingtalk, isAtAll: 'yes' }, 'channel.isAtAll'],
    [{ type: 'dingtalk', url: dingtalk, keyword: `${canary}\n` }, 'channel.keyword'],
    [{ type: 'dingtalk', robots: [] }, 'channel.robots'],
    [{ type: 'dingtalk', url: dingtalk, robots: [{ url: dingtalk }] }, 'channel.robots'],
    [{ type: 'dingtalk', robots: [{ url: dingtalk }, { url: dingtalk }] }, 'channel.robots'],
    [{ type: 'dingtalk', robots: [{ url: dingtalk }, canary] }, 'channel.robots[1]'],
    [{ type: 'dingtalk', robots: [{ url: dingtalk }, { url: canary }] }, 'channel.robots[1].url'],
    [{ type: 'dingtalk', robots: [{ url: dingtalk, secret: [canary] }] }, 'channel.robots[0].secret'],
    [{ type: 'feishu', url: feishu, mentioned: [`<${canary}>`] }, 'channel.mentioned[0]'],
    [{ type: 'wecom', url: wecom, secret: canary }, 'channel.secret'],
    [{ type: 'wecom', url: slack }, 'channel.url'],
    [{ type: 'wecom', url: wecom, mentioned: ['@all'] }, 'channel.format'],
    [{ type: 'wecom', url: wecom, mentioned: Array(50).fill('u'.repeat(64)) }, 'channel.mentioned'],
    [{ type: 'slack', url: slack, secret: canary }, 'channel.secret'],
    [{ type: 'webhook', url: hook }, 'channel.secret'],
    [{ type: 'webhook', url: hook, secret: 'whsec_' + 'AAAA' }, 'channel.secret'],
    [{ type: 'webhook', url: hook, secret: canary, headers: { host: canary } }, 'channel.headers.host'],
    [
      { type: 'webhook', url: hook, secret: canary, headers: { 'Webhook-Id': 'x' } },
      'channel.headers.webhook-id',
    ],
    [{ type: 'webhook', url: hook, secret: canary, headers: { a: `${canary}\r\n` } }, 'channel.headers.a'],
    [{ type: 'webhook', url: hook, secret: canary, headers: { 'a b': 'x' } }, 'channel.headers'],
  ]
  for (const [config, field] of wrong) {
    assert.throws(
      () => parseChannel(config, { allowPrivate: nowhere }),
      (error) => {
        assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
        assert.equal(error.details.option, field, error.message)
        assert.ok(error.message.startsWith(`${field} must be`), error.message)
        assert.ok(
          !JSON.stringify([error.message, error.details, error.stack]).includes(canary),
          error.message,
        )
        return true
      },
      JSON.stringify(config),
    )
  }
})

test('a field that a channel does not have is refused', () => {
  const configs = [
    { type: 'dingtalk', url: dingtalk, mentioned: ['x'] },
    { type: 'feishu', url: feishu, atMobiles: [] },
    { type: 'wecom', url: wecom, keyword: 'x' },
    { type: 'slack', url: slack, format: 'text' },
    { type: 'webhook', url: hook, secret: canary, format: 'text' },
    { type: 'slack', robots: [{ url: slack, weight: 2 }] },
  ]
  for (const config of configs) {
    assert.throws(
      () => parseChannel(config, { allowPrivate: nowhere }),
      (error) => isSignalboxError(error, 'invalid_argument') && /has no option/.test(error.message),
    )
  }
})

test('a private address is refused at once, and plain http unless the operator named the address', () => {
  const open = (url: string, allowPrivate: readonly string[]): string =>
    parseChannel({ type: 'slack', url }, { allowPrivate }).robots[0]!.url
  const hosts = [
    '127.0.0.1',
    '0x7f.1',
    '2130706433',
    '0.0.0.0',
    '[::1]',
    '[::ffff:7f00:1]',
    '169.254.169.254',
  ]
  for (const host of hosts)
    assert.throws(() => open(`https://${host}/hook`, []), /--allow-private.+allowPrivate/, host)
  assert.throws(() => open('http://example.org/hook', []), /https/)
  assert.throws(() => open('http://93.184.216.34/hook', ['127.0.0.0/8']), /https/)
  assert.throws(() => open('http://127.0.0.1/hook', ['10.0.0.0/8']), /--allow-private/)
  assert.equal(open('http://0x7f.1:80/hook#x', ['127.0.0.0/8']), 'http://127.0.0.1/hook')
  // What a name stands for is judged when it is connected to.
  assert.equal(open('http://localhost:8080/hook', ['127.0.0.0/8']), 'http://localhost:8080/hook')
  assert.throws(
    () => parseChannel({ type: 'slack', url: slack }, { allowPrivate: ['127.0.0.1', 'everything'] }),
    /allowPrivate\[1\] must be an address or a range/,
  )
})

test('a pool is the same channel in any order, and other addresses or types are other channels', () => {
  const keyOf = (config: object): string => parseChannel(config, { allowPrivate: nowhere }).key
  const robots = [1, 2, 3].map((n) => ({ url: `${dingtalk}${n}`, secret: `secret-number-${n}` }))
  const key = keyOf({ type: 'dingtalk', robots })
  assert.match(key, /^[0-9a-f]{64}$/)
  assert.equal(keyOf({ type: 'dingtalk', robots: robots.toReversed(), format: 'text' }), key)
  const pool = parseChannel({ type: 'dingtalk', robots: robots.toReversed() }, { allowPrivate: nowhere })
  assert.deepEqual(pool.robots, robots)
  const others = [
    { type: 'dingtalk', robots: robots.slice(1) },
    { type: 'dingtalk', url: dingtalk },
    { type: 'slack', url: dingtalk },
    { type: 'webhook', url: dingtalk, secret: canary },
  ]
  assert.equal(new Set([key, ...others.map(keyOf)]).size, 5)
})

test('the display of a channel shows its type, its hosts and six digits', () => {
  const channels = {
    dingtalk: { url: dingtalk, secret: canary },
    feishu: { url: feishu, secret: canary },
    wecom: { url: wecom },
    slack: { url: slack },
    webhook: { url: hook, secret: canary, headers: { authorization: canary } },
  }
  assert.deepEqual(Object.keys(channels), channelTypes)
  for (const [type, config] of Object.entries(channels)) {
    const { shown, key } = parseChannel({ type, ...config }, { allowPrivate: nowhere })
    assert.equal(shown, `${type} ${new URL(config.url).host} #${key.slice(0, 6)}`)
  }
  const pool = { type: 'slack', robots: [{ url: slack }, { url: `https://hooks.example:8443/${canary}` }] }
  assert.match(
    parseChannel(pool, { allowPrivate: nowhere }).shown,
    /^slack hooks\.example:8443, hooks\.slack\.com \(2 robots\) #/,
  )
})
