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
  type OutboundReply,
  type OutboundRequest,
  type Robot,
  type RobotWithSecret,
  readChoice,
  readRobots,
  readText,
  readTexts,
  robotSecrets,
  type SendVerdict,
  type Through,
} from './channel.ts'
import { jsonBytes, layOut, type Page } from './paging.ts'

/** A custom bot of a Feishu (Lark) group. Its signature is in the body, keyed by time and secret, over nothing. */
export type FeishuChannel = Through<RobotWithSecret> & {
  readonly type: 'feishu'
  /** @default 'post' */
  readonly format?: 'post' | 'text' | undefined
  /** Ids of users, or 'all'. */
  readonly mentioned?: readonly string[] | undefined
  /** Put into a message that lacks it, for bots that want one. */
  readonly keyword?: string | undefined
}

const maxBytes = 20_000

const codes: CodeMeanings = {
  penaltyMs: { 11232: 10_000, 11233: 10_000, 99991400: 10_000 },
  refused: {
    9499: 'the bot found the message malformed',
    19001: 'the key in the url is not valid',
    19002: 'the bot found the message incomplete',
    19021: 'the signature did not match, or the clock is off by more than an hour: check the secret',
    19022: 'the address of this host is not on the list of the bot',
    19024: 'the keyword of the bot is not in the message: set keyword',
  },
}

type Manner = ReturnType<typeof readManner>

function readManner(config: ChannelConfig) {
  return {
    format: readChoice(config, 'format', ['post', 'text']),
    mentioned: readTexts(config, 'mentioned', /^[\w-]{1,64}$/, "the id of a user, or 'all'"),
    keyword: readText(config, 'keyword', 100),
  }
}

function create(config: ChannelConfig): Channel {
  allowFields(config, ['format', 'mentioned', 'keyword'])
  const robots = readRobots(config, { secret: 'optional' })
  const manner = readManner(config)
  const hide = createHiding(robots)
  return Object.freeze({
    ...identify('feishu', robots),
    limits: {
      rate: { messages: 100, perMs: 60_000 },
      burst: { messages: 5, perMs: 1_000 },
      maxBytes,
      concurrency: 2,
    },
    compose: (message: Message, robot: Robot, now: number) => compose(message, robot, now, manner),
    judge: (reply) => judge(reply, hide),
  } satisfies Channel)
}

function judge(reply: OutboundReply, hide: (text: string) => string): SendVerdict {
  const fields = { code: ['code', 'StatusCode'], message: ['msg', 'StatusMessage'] }
  const verdict = judgeCode(reply, fields, codes, hide)
  // 9499 stands for a malformed message and for too many of them; only the words say which.
  if (verdict.kind !== 'refused' || !/code 9499: too many request/i.test(verdict.reason)) return verdict
  return { kind: 'retry', reason: 'code 9499: too many requests', penaltyMs: 10_000 }
}

function compose(message: Message, robot: Robot, now: number, manner: Manner): readonly OutboundRequest[] {
  const signature = sign(robot, now)
  const pages = layOut(message, {
    maxBytes,
    frameBytes: (title) =>
      Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true }, manner, signature, 'with keyword')),
    lineBytes: (line) =>
      manner.format === 'text' ? jsonBytes(`\n- ${breakTags(line)}`) : 1 + Buffer.byteLength(paragraph(line)),
  })
  return pages.map((page) => jsonRequest(robot.url, bodyOf(page, manner, signature)))
}

function bodyOf(page: Page, manner: Manner, signature: object, keywords?: 'with keyword'): string {
  const { title, lines, isFirst } = page
  const called = isFirst ? manner.mentioned : []
  const missing = (text: string): string | undefined =>
    keywords === undefined && manner.keyword !== undefined && text.includes(manner.keyword)
      ? undefined
      : manner.keyword
  if (manner.format === 'text') {
    const body = [breakTags(title), ...lines.map((line) => `- ${breakTags(line)}`)].join('\n')
    const mentions = called.map((id) => `<at user_id="${id}"></at>`).join(' ')
    const keyword = missing(body)
    const text = `${body}${mentions && `\n${mentions}`}${keyword === undefined ? '' : `\n${keyword}`}`
    return JSON.stringify({ ...signature, msg_type: 'text', content: { text } })
  }
  const keyword = missing([title, ...lines].join('\n'))
  const content = [
    ...lines.map((line) => JSON.parse(paragraph(line)) as unknown),
    ...(called.length > 0 ? [called.map((id) => ({ tag: 'at', user_id: id }))] : []),
    ...(keyword === undefined ? [] : [[{ tag: 'text', text: keyword }]]),
    // A post without a paragraph is not taken.
    ...(lines.length + called.length === 0 ? [[{ tag: 'text', text: ' ' }]] : []),
  ]
  return JSON.stringify({ ...signature, msg_type: 'post', content: { post: { zh_cn: { title, content } } } })
}

/** One paragraph of a post; its text is plain by nature. */
function paragraph(line: string): string {
  return JSON.stringify([{ tag: 'text', text: `- ${line}` }])
}

// In plain messages `<at user_id="all">` calls everybody, and no escape is documented: a space of no width breaks it.
function breakTags(text: string): string {
  return text.replaceAll('<', '<\u200b')
}

function sign({ secret }: Robot, now: number): object {
  if (secret === null) return {}
  const timestamp = String(Math.floor(now / 1_000))
  return { timestamp, sign: createHmac('sha256', `${timestamp}\n${secret}`).digest('base64') }
}

/** The key of the bot is in the path of the url. */
export const feishu: ChannelType = { create, secrets: robotSecrets }
