import { type CodeMeanings, judgeCode } from './answers.ts'
import {
  type ChannelConfig,
  type ChannelType,
  createChannelType,
  jsonRequest,
  type KeylessRobot,
  readChoice,
  readTexts,
  refuse,
  type Through,
} from './channel.ts'
import { escapeMarkdown, layOut, type Page } from './paging.ts'

/** A robot of a WeCom (Enterprise WeChat) group. Its key is in the url; it accepts 20 short messages a minute. */
export type WeComChannel = Through<KeylessRobot> & {
  readonly type: 'wecom'
  /** @default 'markdown' */
  readonly format?: 'markdown' | 'text' | undefined
  /** Ids of users, or '@all'. */
  readonly mentioned?: readonly string[] | undefined
  /** Numbers of mobile phones, or '@all'. */
  readonly mentionedMobiles?: readonly string[] | undefined
}

const maxBytesOf = { markdown: 4_096, text: 2_048 } as const

const codes: CodeMeanings = {
  penaltyMs: { 45009: 60_000, 45033: 10_000 },
  refused: {
    40008: 'the robot does not take this kind of message',
    40058: 'the robot found the message malformed or too long',
    44004: 'the robot found the message empty',
    45002: 'the message is too long',
    93000: 'the key in the url is not valid',
    93008: 'the robot is not in the group',
    93017: 'the robot was removed from the group',
  },
}

type Style = ReturnType<typeof readStyle>

export const weCom: ChannelType = createChannelType({
  type: 'wecom',
  robots: { secret: 'none', queryKey: 'key' },
  limits: ({ format }: Style) => ({
    rate: { messages: 20, perMs: 60_000 },
    burst: null,
    maxBytes: maxBytesOf[format],
    concurrency: 2,
  }),
  fields: ['format', 'mentioned', 'mentionedMobiles'],
  readStyle,
  compose(message, { robot, style }) {
    const show = showing(style)
    const pages = layOut(message, {
      maxBytes: maxBytesOf[style.format],
      frameBytes: (title) => Buffer.byteLength(contentOf({ title, lines: [], isFirst: true }, style)),
      lineBytes: (line) => Buffer.byteLength(`\n- ${show(line)}`),
    })
    return pages.map((page) => jsonRequest(robot.url, bodyOf(page, style)))
  },
  judge: (reply, hide) => judgeCode(reply, { code: ['errcode'], message: ['errmsg'] }, codes, hide),
})

function readStyle(config: ChannelConfig) {
  const style = {
    format: readChoice(config, 'format', ['markdown', 'text']),
    mentioned: readTexts(config, 'mentioned', /^(@all|[\w.@-]{1,64})$/, "the id of a user, or '@all'"),
    mentionedMobiles: readTexts(
      config,
      'mentionedMobiles',
      /^(@all|\+?[0-9-]{5,20})$/,
      'the number of a mobile phone',
    ),
  }
  const forTextOnly = style.mentionedMobiles.length > 0 || style.mentioned.includes('@all')
  if (style.format === 'markdown' && forTextOnly) {
    refuse('channel.format', "text with mentionedMobiles or '@all': in Markdown only ids can be mentioned")
  }
  const mentionBytes = Buffer.byteLength(mentionsOf(style))
  if (mentionBytes > 1_024) refuse('channel.mentioned', 'shorter: the mentions take a quarter of a message')
  return style
}

function bodyOf(page: Page, style: Style): string {
  const content = contentOf(page, style)
  if (style.format === 'markdown') return JSON.stringify({ msgtype: 'markdown', markdown: { content } })
  const mentions = page.isFirst
    ? { mentioned_list: style.mentioned, mentioned_mobile_list: style.mentionedMobiles }
    : {}
  return JSON.stringify({ msgtype: 'text', text: { content, ...mentions } })
}

function contentOf({ title, lines, isFirst }: Page, style: Style): string {
  const show = showing(style)
  const heading = style.format === 'markdown' ? `### ${show(title)}` : show(title)
  const items = lines.map((line) => `\n- ${show(line)}`).join('')
  return `${heading}${items}${isFirst ? mentionsOf(style) : ''}`
}

function showing({ format }: Style): (text: string) => string {
  return format === 'markdown' ? escapeMarkdown : (text) => text
}

function mentionsOf({ format, mentioned }: Style): string {
  if (format === 'text' || mentioned.length === 0) return ''
  return `\n${mentioned.map((id) => `<@${id}>`).join(' ')}`
}
