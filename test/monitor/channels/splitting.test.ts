import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import {
  type StandIn,
  startDingTalk,
  startFeishu,
  startSlack,
  startWeCom,
} from '../../support/robots/index.ts'
import { aChannel, aMessage, local, notify } from './messages.ts'

const many = 1_000_000

/** Every format of every robot, with its stand-in, which refuses what is too large. */
const formats: readonly { name: string; start: () => Promise<StandIn>; config: object }[] = [
  {
    name: 'dingtalk markdown',
    start: () => startDingTalk({ perMinute: many }),
    config: { keyword: 'key*word' },
  },
  { name: 'dingtalk text', start: () => startDingTalk({ perMinute: many }), config: { format: 'text' } },
  {
    name: 'dingtalk actionCard',
    start: () => startDingTalk({ perMinute: many }),
    config: { format: 'actionCard', button: { title: 'Open', url: 'https://example.org' } },
  },
  {
    name: 'feishu post',
    start: () => startFeishu({ perMinute: many, perSecond: many }),
    config: { secret: 'feishu-secret', mentioned: ['all'], keyword: 'word' },
  },
  {
    name: 'feishu text',
    start: () => startFeishu({ perMinute: many, perSecond: many }),
    config: { format: 'text', mentioned: ['all'] },
  },
  { name: 'wecom markdown', start: () => startWeCom({ perMinute: many }), config: { mentioned: ['wang'] } },
  {
    name: 'wecom text',
    start: () => startWeCom({ perMinute: many }),
    config: { format: 'text', mentioned: ['@all'] },
  },
  { name: 'slack', start: () => startSlack({ perSecond: many, burst: many }), config: {} },
]

// What grows when it is written: in UTF-8, in JSON, in Markdown, as an entity, as half of a pair.
const alphabet = [
  'a',
  ' ',
  '场',
  '😀',
  '"',
  '\\',
  '*',
  '_',
  '<',
  '&',
  '[',
  ']',
  '(',
  '\n',
  '\u0007',
  '\ud800',
  '#',
]

function someText(length: number, seed: number): string {
  let state = seed
  let text = ''
  for (let n = 0; n < length; n += 1) {
    state = (state * 48_271) % 2_147_483_647
    text += alphabet[state % alphabet.length]
  }
  return text
}

for (const { name, start, config } of formats) {
  const type = name.split(' ')[0]

  test(`${name}: a long digest is sent whole, in order, in parts that the provider accepts`, async () => {
    await using robot = await start()
    await using outbound = createOutbound({ allowPrivate: local })
    const channel = aChannel({ type, url: robot.url, ...config })
    const lines = Array.from({ length: 600 }, (_, n) => `Court ${n}: ${'free '.repeat(n % 40)}`.trim())
    const verdicts = await notify(outbound, channel, aMessage(lines))
    assert.ok(verdicts.length > 1)
    assert.ok(verdicts.every(({ kind }) => kind === 'sent'))
    const notified = robot.messages.flatMap(({ text }) => text.match(/Court \d+(?=:)/g) ?? [])
    assert.deepEqual(
      notified,
      lines.map((line) => line.split(':')[0]),
    )
    for (const [at, { text, body }] of robot.messages.entries()) {
      const all = text + JSON.stringify(body)
      assert.ok(all.includes(`(${at + 1}/${verdicts.length})`), 'each part says which it is')
    }
  })

  test(`${name}: no unusual text makes a part invalid or splits a character`, async () => {
    await using robot = await start()
    await using outbound = createOutbound({ allowPrivate: local })
    const channel = aChannel({ type, url: robot.url, ...config })
    for (let seed = 1; seed <= 12; seed += 1) {
      const lines = Array.from({ length: 8 }, (_, n) =>
        someText((seed * 977 * (n + 1)) % 9_000, seed * 31 + n),
      )
      const message = aMessage(lines, { title: someText(seed * 400, seed), possibleRepeat: seed % 2 === 0 })
      for (const verdict of await notify(outbound, channel, message))
        assert.deepEqual(verdict, { kind: 'sent' })
    }
    for (const { text } of robot.messages) {
      assert.ok(text.isWellFormed())
      // Broken halves that were given became this sign; a cut of ours would leave one right before its mark.
      assert.doesNotMatch(text, /\ud83d(?!\ude00)/)
    }
    assert.deepEqual(robot.refusals, [])
  })

  test(`${name}: a line of a megabyte is shortened with a note, and other lines are unchanged`, async () => {
    await using robot = await start()
    await using outbound = createOutbound({ allowPrivate: local })
    const channel = aChannel({ type, url: robot.url, ...config })
    const verdicts = await notify(outbound, channel, aMessage(['first', '😀'.repeat(262_144), 'last']))
    assert.ok(verdicts.every(({ kind }) => kind === 'sent'))
    const all = robot.messages.map(({ text }) => text).join('\n')
    assert.match(all, /first[\s\S]*😀… \(shortened\)[\s\S]*last/)
    const largest = Math.max(...robot.messages.map(({ text }) => Buffer.byteLength(text)))
    assert.ok(largest > channel.limits.maxBytes * 0.7, 'as much as there is room for')
    assert.ok(all.isWellFormed())
  })
}

test('a message does not repeat a title that says everything, and marks a possible repeat', () => {
  const channel = aChannel({ type: 'slack', url: 'https://hooks.slack.com/services/T0/B0/token' })
  const textOf = (message: ReturnType<typeof aMessage>): string =>
    JSON.parse(channel.compose(message, channel.robots[0]!, 0)[0]!.body).text
  assert.equal(textOf(aMessage(['Court 1'], { title: 'Court 1' })), 'Court 1')
  assert.equal(
    textOf(aMessage(['Court 1'], { title: 'Court 1', possibleRepeat: true })),
    'Court 1\n• This may have reached you before.',
  )
})
