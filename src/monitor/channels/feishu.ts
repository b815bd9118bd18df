import { createHmac } from 'node:crypto'
import { type CodeMeanings, judgeCode } from './answers.ts'
import {
  type ChannelConfig,
  type ChannelType,
  createChannelType,
  jsonRequest,
  type OutboundReply,
  type Robot,
  type RobotWithSecret,
  readChoice,
  readText,
  readTexts,
  type SendVerdict,
  type Through,
} from './channel.ts'
import { jsonBytes, layOut, type Page } from './paging.ts'

/**
 * A custom bot of a Feishu (Lark) group. Its key is in the path of the url. The signature in the body is a HMAC of no
 * text, with time and secret as its key.
 */
export type FeishuChannel = Through<RobotWithSecret> & {
  readonly type: 'feishu'
  /** @default 'post' */
  readonly format?: 'post' | 'text' | undefined
  /** Ids of users, or 'all'. */
  readonly mentioned?: readonly string[] | undefined
  /** Added to a message without it, for bots that require a keyword. */
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

type Style = ReturnType<typeof readStyle>

function readStyle(config: ChannelConfig) {
  return {
    format: readChoice(config, 'format', ['post', 'text']),
    mentioned: readTexts(config, 'mentioned', /^[\w-]{1,64}$/, "the id of a user, or 'all'"),
    keyword: readText(config, 'keyword', 100),
  }
}

export const feishu: ChannelType = createChannelType({
  type: 'feishu',
  robots: { secret: 'optional' },
  limits: {
    rate: { messages: 100, perMs: 60_000 },
    burst: { messages: 5, perMs: 1_000 },
    maxBytes,
    concurrency: 2,
  },
  fields: ['format', 'mentioned', 'keyword'],
  readStyle,
  compose(message, { robot, style, now }) {
    const signature = sign(robot, now)
    const pages = layOut(message, {
      maxBytes,
      frameBytes: (title) =>
        Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true }, style, signature, 'with keyword')),
      lineBytes: (line) =>
        style.format === 'text'
          ? jsonBytes(`\n- ${breakTags(line)}`)
          : 1 + Buffer.byteLength(paragraph(line)),
    })
    return pages.map((page) => jsonRequest(robot.url, bodyOf(page, style, signature)))
  },
  judge,
})

function judge(reply: OutboundReply, hide: (text: string) => string): SendVerdict {
  const fields = { code: ['code', 'StatusCode'], message: ['msg', 'StatusMessage'] }
  const verdict = judgeCode(reply, fields, codes, hide)
  // 9499 means a malformed message, or too many messages. Only the text tells which.
  if (verdict.kind !== 'refused' || !/code 9499: too many request/i.test(verdict.reason)) return verdict
  return { kind: 'retry', reason: 'code 9499: too many requests', penaltyMs: 10_000 }
}

function bodyOf(page: Page, style: Style, signature: object, keywords?: 'with keyword'): string {
  const { title, lines, isFirst } = page
  const mentioned = isFirst ? style.mentioned : []
  const missing = (text: string): string | undefined =>
    keywords === undefined && style.keyword !== undefined && text.includes(style.keyword)
      ? undefined
      : style.keyword
  if (style.format === 'text') {
    const body = [breakTags(title), ...lines.map((line) => `- ${breakTags(line)}`)].join('\n')
    const mentions = mentioned.map((id) => `<at user_id="${id}"></at>`).join(' ')
    const keyword = missing(body)
    const text = `${body}${mentions && `\n${mentions}`}${keyword === undefined ? '' : `\n${keyword}`}`
    return JSON.stringify({ ...signature, msg_type: 'text', content: { text } })
  }
  const keyword = missing([title, ...lines].join('\n'))
  const content = [
    ...lines.map((line) => JSON.parse(paragraph(line)) as unknown),
    ...(mentioned.length > 0 ? [mentioned.map((id) => ({ tag: 'at', user_id: id }))] : []),
    ...(keyword === undefined ? [] : [[{ tag: 'text', text: keyword }]]),
    // Feishu refuses a post without a paragraph.
    ...(lines.length + mentioned.length === 0 ? [[{ tag: 'text', text: ' ' }]] : []),
  ]
  return JSON.stringify({ ...signature, msg_type: 'post', content: { post: { zh_cn: { title, content } } } })
}

/** One paragraph of a post, which is always plain text. */
function paragraph(line: string): string {
  return JSON.stringify([{ tag: 'text', text: `- ${line}` }])
}

// In plain messages `<at user_id="all">` mentions everyone. Feishu documents no escape, so a zero-width space breaks it.
function breakTags(text: string): string {
  return text.replaceAll('<', '<\u200b')
}

function sign({ secret }: Robot, now: number): object {
  if (secret === null) return {}
  const timestamp = String(Math.floor(now / 1_000))
  return { timestamp, sign: createHmac('sha256', `${timestamp}\n${secret}`).digest('base64') }
}
