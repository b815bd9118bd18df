import { createHmac } from 'node:crypto'
import { type CodeMeanings, judgeCode } from './answers.ts'
import {
  type ChannelConfig,
  type ChannelType,
  createChannelType,
  jsonRequest,
  object,
  type Robot,
  type RobotWithSecret,
  readChoice,
  readFlag,
  readText,
  readTexts,
  refuse,
  type Through,
  textOf,
} from './channel.ts'
import { escapeMarkdown, jsonBytes, layOut, type Page } from './paging.ts'

/**
 * A custom robot of a DingTalk group. Its access_token is in the url. It replies to errors with HTTP 200. It accepts 20
 * messages a minute, and after the 21st it sends nothing for ten minutes, so a sender must never exceed the limit.
 */
export type DingTalkChannel = Through<RobotWithSecret> & {
  readonly type: 'dingtalk'
  /** @default 'markdown' */
  readonly format?: 'markdown' | 'text' | 'actionCard' | undefined
  /** Mentions users by the numbers of their mobile phones. */
  readonly atMobiles?: readonly string[] | undefined
  /** Mentions users by their ids. */
  readonly atUserIds?: readonly string[] | undefined
  readonly isAtAll?: boolean | undefined
  /** Added to a message without it, for robots that require a keyword. */
  readonly keyword?: string | undefined
  /** The button of an `actionCard`, which needs one. */
  readonly button?: { readonly title: string; readonly url: string } | undefined
}

const maxBytes = 20_000
const banMs = 600_000

const codes: CodeMeanings = {
  penaltyMs: { 130101: banMs, 410100: banMs },
  refused: {
    310000:
      'the robot refused it: check keyword, secret, clock and list of addresses in its security settings',
    40035: 'the robot found the message incomplete',
    43004: 'the robot did not take the content type',
    90030: 'the quota of the robot is used up',
    300001: 'the access_token in the url is not valid',
    300005: 'the access_token in the url does not exist',
    400013: 'the group was dissolved',
    400101: 'the access_token in the url does not exist',
    400102: 'the robot is disabled',
    400105: 'the robot does not take this kind of message',
    400106: 'the robot does not exist',
    430101: 'the robot found an unsafe link in it',
    430102: 'the robot found unfit text in it',
    430103: 'the robot found an unfit picture in it',
    430104: 'the robot found unfit content in it',
    460101: 'the message is too long',
  },
}

type Style = ReturnType<typeof readStyle>
type Button = NonNullable<DingTalkChannel['button']>

export const dingTalk: ChannelType = createChannelType({
  type: 'dingtalk',
  robots: { secret: 'optional', queryKey: 'access_token' },
  limits: { rate: { messages: 20, perMs: 60_000 }, burst: null, maxBytes, concurrency: 2 },
  fields: ['format', 'atMobiles', 'atUserIds', 'isAtAll', 'keyword', 'button'],
  readStyle,
  compose(message, { robot, style, now }) {
    const show = style.format === 'text' ? (text: string) => text : escapeMarkdown
    const pages = layOut(message, {
      maxBytes,
      frameBytes: (title) =>
        Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true }, style, 'with keyword')),
      lineBytes: (line) => jsonBytes(`\n- ${show(line)}`),
    })
    return pages.map((page) => jsonRequest(signedUrl(robot, now), bodyOf(page, style)))
  },
  judge: (reply, hide) => judgeCode(reply, { code: ['errcode'], message: ['errmsg'] }, codes, hide),
})

function readStyle(config: ChannelConfig) {
  const style = {
    format: readChoice(config, 'format', ['markdown', 'text', 'actionCard']),
    atMobiles: readTexts(config, 'atMobiles', /^\+?[0-9-]{5,20}$/, 'the number of a mobile phone'),
    atUserIds: readTexts(config, 'atUserIds', /^[\w.@-]{1,64}$/, 'the id of a user'),
    isAtAll: readFlag(config, 'isAtAll'),
    keyword: readText(config, 'keyword', 100),
    button: readButton(config),
  }
  const isCard = style.format === 'actionCard'
  if (isCard && style.button === undefined) {
    refuse(
      'channel.button',
      '{ title, url } with the format actionCard: the provider takes no card without one',
    )
  }
  if (!isCard && style.button !== undefined)
    refuse('channel.button', 'left out unless the format is actionCard')
  if (isCard && (style.isAtAll || style.atMobiles.length + style.atUserIds.length > 0)) {
    refuse(
      'channel.format',
      'text or markdown with atMobiles, atUserIds or isAtAll: a card cannot mention people',
    )
  }
  return style
}

function readButton({ fields }: ChannelConfig): Button | undefined {
  if (fields.button === undefined) return undefined
  const { title, url, ...unknown } = object('channel.button', fields.button)
  if (Object.keys(unknown).length > 0) refuse('channel.button', '{ title, url } and nothing else')
  const target = textOf('channel.button.url', url, 1_024)
  if (!/^(https?|dingtalk):\/\//.test(target)) refuse('channel.button.url', 'an address of the web')
  return { title: textOf('channel.button.title', title, 40), url: target }
}

function bodyOf({ title, lines, isFirst }: Page, style: Style, keywords?: 'with keyword'): string {
  const { format, keyword, button } = style
  const isText = format === 'text'
  const items = lines.map((line) => `\n- ${isText ? line : escapeMarkdown(line)}`).join('')
  // In Markdown a mention works only if the text has it too. The first page has it for all pages.
  const mentions = isFirst ? [...style.atMobiles, ...style.atUserIds].map((id) => `@${id}`).join(' ') : ''
  const body = `${isText ? title : `### ${escapeMarkdown(title)}\n`}${items}${mentions && `\n\n${mentions}`}`
  // The robot searches the text for its exact keyword, so the keyword is not escaped.
  const needsKeyword = keyword !== undefined && (keywords !== undefined || !body.includes(keyword))
  const text = needsKeyword ? `${body}\n\n${keyword}` : body
  const at = isFirst
    ? { atMobiles: style.atMobiles, atUserIds: style.atUserIds, isAtAll: style.isAtAll }
    : { isAtAll: false }
  switch (format) {
    case 'text':
      return JSON.stringify({ msgtype: 'text', text: { content: text }, at })
    case 'markdown':
      return JSON.stringify({ msgtype: 'markdown', markdown: { title, text }, at })
    case 'actionCard': {
      const single = { singleTitle: button?.title, singleURL: button?.url }
      return JSON.stringify({ msgtype: 'actionCard', actionCard: { title, text, ...single } })
    }
  }
}

function signedUrl({ url, secret }: Robot, now: number): string {
  if (secret === null) return url
  const timestamp = Math.floor(now)
  const sign = createHmac('sha256', secret).update(`${timestamp}\n${secret}`).digest('base64')
  const signed = new URL(url)
  signed.searchParams.set('timestamp', String(timestamp))
  signed.searchParams.set('sign', sign)
  return signed.href
}
