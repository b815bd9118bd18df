import assert from 'node:assert/strict'
import { test } from 'vitest'
import { escapeMarkdown } from '../../../src/monitor/channels/paging.ts'
import { aChannel, aMessage } from './messages.ts'

const urls = {
  dingtalk: 'https://oapi.dingtalk.com/robot/send?access_token=token-1',
  feishu: 'https://open.feishu.cn/open-apis/bot/v2/hook/token-1',
  wecom: 'https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=key-1',
  slack: 'https://hooks.slack.com/services/T0/B0/token',
}

function textOf(type: keyof typeof urls, name: string, more: object = {}): string {
  const channel = aChannel({ type, url: urls[type], ...more })
  const [request] = channel.compose(aMessage([name], { title: name }), channel.robots[0]!, 0)
  const body = JSON.parse(request!.body)
  return (
    body.markdown?.text ?? body.markdown?.content ?? body.text?.content ?? body.text ?? JSON.stringify(body)
  )
}

test('a name that looks like a link is plain text in Markdown, also for readers that ignore escapes', () => {
  for (const name of [
    '[x](http://evil)',
    '![x](http://evil)',
    '[x][1]',
    '[[x](a)](http://evil)',
    '[x]\\(http://evil)',
  ]) {
    for (const text of [textOf('dingtalk', name), textOf('wecom', name)]) {
      assert.doesNotMatch(text, /\](\(|\[|:)/, text)
      assert.doesNotMatch(text, /(?<!\\)(\\\\)*[[\]]/, text)
    }
  }
})

test('a name that looks like a tag or a mention is plain text everywhere', () => {
  for (const name of [
    '<@all>',
    '<font color="red">x</font>',
    '<at user_id="all"></at>',
    '<!channel>',
    '<http://evil|x>',
  ]) {
    assert.doesNotMatch(textOf('dingtalk', name), /</)
    assert.doesNotMatch(textOf('wecom', name), /</)
    assert.doesNotMatch(textOf('slack', name), /[<>]/)
    assert.doesNotMatch(textOf('feishu', name, { format: 'text' }), /<(?!\u200b)/)
  }
  assert.equal(textOf('slack', '<!channel> & @all'), '&lt;!channel&gt; &amp; @all')
  // A name that is already written as an entity does not become the sign.
  assert.equal(textOf('slack', '&lt;!channel&gt;'), '&amp;lt;!channel&amp;gt;')
  assert.equal(escapeMarkdown('&lt;@all&gt; R&D 1 & 2'), '&amp;lt;@all&amp;gt; R&amp;D 1 & 2')
})

test('in a Feishu post a name is text and never a tag', () => {
  const channel = aChannel({ type: 'feishu', url: urls.feishu })
  const [request] = channel.compose(aMessage(['<at user_id="all"></at>']), channel.robots[0]!, 0)
  assert.deepEqual(JSON.parse(request!.body).content.post.zh_cn.content, [
    [{ tag: 'text', text: '- <at user_id="all"></at>' }],
  ])
})

test('a Slack message turns off names, links and markup', () => {
  const channel = aChannel({ type: 'slack', url: urls.slack })
  const { text: _, ...rest } = JSON.parse(channel.compose(aMessage(['*x*']), channel.robots[0]!, 0)[0]!.body)
  assert.deepEqual(rest, {
    mrkdwn: false,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  })
})

test('emphasis, code and line starts are escaped; plain names stay as they are', () => {
  const escaped: Record<string, string> = {
    '**x**': '\\*\\*x\\*\\*',
    '`x`': '\\`x\\`',
    _x_: '\\_x\\_',
    time_slot_1: 'time_slot_1',
    '# x': '\\# x',
    '> x': '\\> x',
    '- x': '\\- x',
    '-5 °C': '-5 °C',
    '1. x': '1\\. x',
    '10.5 m': '10.5 m',
    'Hall (north), 3rd floor': 'Hall (north), 3rd floor',
    '羽毛球场 1号': '羽毛球场 1号',
  }
  for (const [name, expected] of Object.entries(escaped)) assert.equal(escapeMarkdown(name), expected)
})

test('a name cannot start a new line, change the text direction, or contain control characters', () => {
  for (const name of ['a\nb', 'a\r\n# b', 'a\u2028b', 'a\u202eb', 'a\u0000b', 'a\u0085b']) {
    for (const type of ['dingtalk', 'wecom', 'slack'] as const) {
      const text = textOf(type, name, type === 'slack' ? {} : { format: 'text' })
      assert.match(text, /^a (# )?b$/, JSON.stringify(text))
    }
  }
})
