import { createHmac } from 'node:crypto'
import { type CodeMeanings, createHiding, judgeCode } from './answers.ts'
import {
  allowFields,
  type Channel,
  type ChannelConfig,
  type ChannelType,
  identify,
  jsonRequest,
  type Message,
  type OutboundRequest,
  object,
  type Robot,
  type RobotWithSecret,
  readChoice,
  readFlag,
  readRobots,
  readText,
  readTexts,
  refuse,
  robotSecrets,
  type Through,
  textOf,
} from './channel.ts'
import { escapeMarkdown, jsonBytes, layOut, type Page } from './paging.ts'

/**
 * A custom robot of a DingTalk group. It answers errors with HTTP 200, takes 20 messages a minute and is silent for ten
 * minutes after the 21st, so its limits are to be obeyed and not to be tried out.
 */
export type DingTalkChannel = Through<RobotWithSecret> & {
  readonly type: 'dingtalk'
  /** @default 'markdown' */
  readonly format?: 'markdown' | 'text' | 'actionCard' | undefined
  /** Who is mentioned: numbers of mobile phones. */
  readonly atMobiles?: readonly string[] | undefined
  /** Who is mentioned: ids of users. */
  readonly atUserIds?: readonly string[] | undefined
  readonly isAtAll?: boolean | undefined
  /** Put into a message that lacks it, for robots that want one. */
  readonly keyword?: string | undefined
  /** Of an `actionCard`, which needs one. */
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

type Manner = ReturnType<typeof readManner>
type Button = NonNullable<DingTalkChannel['button']>

function create(config: ChannelConfig): Channel {
  allowFields(config, ['format', 'atMobiles', 'atUserIds', 'isAtAll', 'keyword', 'button'])
  const robots = readRobots(config, { secret: 'optional', queryKey: 'access_token' })
  const manner = readManner(config)
  const hide = createHiding(robots)
  return Object.freeze({
    ...identify('dingtalk', robots),
    limits: { rate: { messages: 20, perMs: 60_000 }, burst: null, maxBytes, concurrency: 2 },
    compose: (message: Message, robot: Robot, now: number) => compose(message, robot, now, manner),
    judge: (reply) => judgeCode(reply, { code: ['errcode'], message: ['errmsg'] }, codes, hide),
  } satisfies Channel)
}

function readManner(config: ChannelConfig) {
  const manner = {
    format: readChoice(config, 'format', ['markdown', 'text', 'actionCard']),
    atMobiles: readTexts(config, 'atMobiles', /^\+?[0-9-]{5,20}$/, 'the number of a mobile phone'),
    atUserIds: readTexts(config, 'atUserIds', /^[\w.@-]{1,64}$/, 'the id of a user'),
    isAtAll: readFlag(config, 'isAtAll'),
    keyword: readText(config, 'keyword', 100),
    button: readButton(config),
  }
  const isCard = manner.format === 'actionCard'
  if (isCard && manner.button === undefined) {
    refuse(
      'channel.button',
      '{ title, url } with the format actionCard: the provider takes no card without one',
    )
  }
  if (!isCard && manner.button !== undefined)
    refuse('channel.button', 'left out unless the format is actionCard')
  if (isCard && (manner.isAtAll || manner.atMobiles.length + manner.atUserIds.length > 0)) {
    refuse(
      'channel.format',
      'text or markdown with atMobiles, atUserIds or isAtAll: a card cannot mention people',
    )
  }
  return manner
}

function readButton({ fields }: ChannelConfig): Button | undefined {
  if (fields.button === undefined) return undefined
  const { title, url, ...unknown } = object('channel.button', fields.button)
  if (Object.keys(unknown).length > 0) refuse('channel.button', '{ title, url } and nothing else')
  const target = textOf('channel.button.url', url, 1_024)
  if (!/^(https?|dingtalk):\/\//.test(target)) refuse('channel.button.url', 'an address of the web')
  return { title: textOf('channel.button.title', title, 40), url: target }
}

function compose(message: Message, robot: Robot, now: number, manner: Manner): readonly OutboundRequest[] {
  const show = manner.format === 'text' ? (text: string) => text : escapeMarkdown
  const pages = layOut(message, {
    maxBytes,
    frameBytes: (title) =>
      Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true }, manner, 'with keyword')),
    lineBytes: (line) => jsonBytes(`\n- ${show(line)}`),
  })
  return pages.map((page) => jsonRequest(signedUrl(robot, now), bodyOf(page, manner)))
}

function bodyOf({ title, lines, isFirst }: Page, manner: Manner, keywords?: 'with keyword'): string {
  const { format, keyword, button } = manner
  const isText = format === 'text'
  const items = lines.map((line) => `\n- ${isText ? line : escapeMarkdown(line)}`).join('')
  // A mention works in Markdown only where the text holds it, too; once is enough for all pages.
  const called = isFirst ? [...manner.atMobiles, ...manner.atUserIds].map((id) => `@${id}`).join(' ') : ''
  const body = `${isText ? title : `### ${escapeMarkdown(title)}\n`}${items}${called && `\n\n${called}`}`
  // The robot looks for its keyword as it stands, so it is neither escaped nor left to chance.
  const needsKeyword = keyword !== undefined && (keywords !== undefined || !body.includes(keyword))
  const text = needsKeyword ? `${body}\n\n${keyword}` : body
  const at = isFirst
    ? { atMobiles: manner.atMobiles, atUserIds: manner.atUserIds, isAtAll: manner.isAtAll }
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

/** The access_token is in the url. */
export const dingTalk: ChannelType = { create, secrets: robotSecrets }
