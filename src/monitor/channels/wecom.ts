import { type CodeMeanings, createHiding, judgeCode } from './answers.ts'
import {
  allowFields,
  type Channel,
  type ChannelConfig,
  type ChannelType,
  identify,
  jsonRequest,
  type KeylessRobot,
  type Message,
  type OutboundRequest,
  type Robot,
  readChoice,
  readRobots,
  readTexts,
  refuse,
  robotSecrets,
  type Through,
} from './channel.ts'
import { escapeMarkdown, layOut, type Page } from './paging.ts'

/** A robot of a WeCom (Enterprise WeChat) group: its key is in the url, messages are short, 20 a minute. */
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

type Manner = ReturnType<typeof readManner>

function create(config: ChannelConfig): Channel {
  allowFields(config, ['format', 'mentioned', 'mentionedMobiles'])
  const robots = readRobots(config, { secret: 'none', queryKey: 'key' })
  const manner = readManner(config)
  const hide = createHiding(robots)
  const maxBytes = maxBytesOf[manner.format]
  return Object.freeze({
    ...identify('wecom', robots),
    limits: { rate: { messages: 20, perMs: 60_000 }, burst: null, maxBytes, concurrency: 2 },
    compose: (message: Message, robot: Robot) => compose(message, robot, manner),
    judge: (reply) => judgeCode(reply, { code: ['errcode'], message: ['errmsg'] }, codes, hide),
  } satisfies Channel)
}

function readManner(config: ChannelConfig) {
  const manner = {
    format: readChoice(config, 'format', ['markdown', 'text']),
    mentioned: readTexts(config, 'mentioned', /^(@all|[\w.@-]{1,64})$/, "the id of a user, or '@all'"),
    mentionedMobiles: readTexts(
      config,
      'mentionedMobiles',
      /^(@all|\+?[0-9-]{5,20})$/,
      'the number of a mobile phone',
    ),
  }
  const forTextOnly = manner.mentionedMobiles.length > 0 || manner.mentioned.includes('@all')
  if (manner.format === 'markdown' && forTextOnly) {
    refuse('channel.format', "text with mentionedMobiles or '@all': in Markdown only ids can be mentioned")
  }
  const mentionBytes = Buffer.byteLength(mentionsOf(manner))
  if (mentionBytes > 1_024) refuse('channel.mentioned', 'shorter: the mentions take a quarter of a message')
  return manner
}

function compose(message: Message, robot: Robot, manner: Manner): readonly OutboundRequest[] {
  const show = showing(manner)
  const pages = layOut(message, {
    maxBytes: maxBytesOf[manner.format],
    frameBytes: (title) => Buffer.byteLength(contentOf({ title, lines: [], isFirst: true }, manner)),
    lineBytes: (line) => Buffer.byteLength(`\n- ${show(line)}`),
  })
  return pages.map((page) => jsonRequest(robot.url, bodyOf(page, manner)))
}

function bodyOf(page: Page, manner: Manner): string {
  const content = contentOf(page, manner)
  if (manner.format === 'markdown') return JSON.stringify({ msgtype: 'markdown', markdown: { content } })
  const mentions = page.isFirst
    ? { mentioned_list: manner.mentioned, mentioned_mobile_list: manner.mentionedMobiles }
    : {}
  return JSON.stringify({ msgtype: 'text', text: { content, ...mentions } })
}

function contentOf({ title, lines, isFirst }: Page, manner: Manner): string {
  const show = showing(manner)
  const heading = manner.format === 'markdown' ? `### ${show(title)}` : show(title)
  const items = lines.map((line) => `\n- ${show(line)}`).join('')
  return `${heading}${items}${isFirst ? mentionsOf(manner) : ''}`
}

function showing({ format }: Manner): (text: string) => string {
  return format === 'markdown' ? escapeMarkdown : (text) => text
}

function mentionsOf({ format, mentioned }: Manner): string {
  if (format === 'text' || mentioned.length === 0) return ''
  return `\n${mentioned.map((id) => `<@${id}>`).join(' ')}`
}

/** The key is in the url. */
export const weCom: ChannelType = { create, secrets: robotSecrets }
