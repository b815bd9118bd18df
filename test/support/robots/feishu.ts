import { createHmac } from 'node:crypto'
import {
  createWindow,
  type Decision,
  isText,
  parseJson,
  type StandIn,
  type StandInOptions,
  startStandIn,
} from './stand-in.ts'

export interface FeishuOptions extends StandInOptions {
  readonly token?: string
  readonly secret?: string
  readonly keyword?: string
  /** @default 100 */
  readonly perMinute?: number
  /** @default 5 */
  readonly perSecond?: number
}

/** A Feishu bot: its signature in the body, 20 KB, 100 a minute and 5 a second. */
export async function startFeishu(options: FeishuOptions = {}): Promise<StandIn> {
  const { token = 'feishu-token-0123456789', secret, keyword, perMinute = 100, perSecond = 5 } = options
  const minute = createWindow(perMinute, 60_000)
  const second = createWindow(perSecond, 1_000)

  return await startStandIn(`/open-apis/bot/v2/hook/${token}`, options, (request) => {
    const { url, at, raw, bytes } = request
    if (request.method !== 'POST' || url.pathname !== `/open-apis/bot/v2/hook/${token}`) {
      return refused(19001, 'param invalid: incoming webhook access token invalid')
    }
    if (bytes > 20_480) return refused(9499, 'Bad Request: request body too large')
    const body = parseJson(raw)
    if (body === undefined) return refused(9499, 'Bad Request')
    if (secret !== undefined && !isSigned(body, secret, at)) {
      return refused(19021, 'sign match fail or timestamp is not within one hour from current time')
    }
    if (!second.take(at) || !minute.take(at)) return refused(11232, 'frequency limited')
    const text = textOf(body)
    if (text === undefined) return refused(19002, 'params error, msg_type need')
    if (keyword !== undefined && !text.includes(keyword)) return refused(19024, 'Key Words Not Found')
    const answer = { StatusCode: 0, StatusMessage: 'success', code: 0, data: {}, msg: 'success' }
    return { taken: true, text, body, answer: { status: 200, body: JSON.stringify(answer) } }
  })
}

function isSigned({ timestamp, sign }: Record<string, unknown>, secret: string, at: number): boolean {
  if (typeof timestamp !== 'string' || !/^\d{10}$/.test(timestamp)) return false
  if (Math.abs(at / 1_000 - Number(timestamp)) > 3_600) return false
  return sign === createHmac('sha256', `${timestamp}\n${secret}`).update('').digest('base64')
}

// biome-ignore lint/suspicious/noExplicitAny: it is what is being checked.
function textOf({ msg_type, content }: any): string | undefined {
  if (msg_type === 'text') return isText(content?.text) ? content.text : undefined
  const post = msg_type === 'post' ? content?.post?.zh_cn : undefined
  if (!isText(post?.title) || !Array.isArray(post.content) || post.content.length === 0) return undefined
  const paragraphs = post.content.map((parts: { tag: string; text?: string; user_id?: string }[]) =>
    parts.map((part) => (part.tag === 'at' ? `@${part.user_id}` : part.text)).join(''),
  )
  return [post.title, ...paragraphs].join('\n')
}

function refused(code: number, msg: string): Decision {
  return {
    taken: false,
    code,
    why: msg,
    answer: { status: 200, body: JSON.stringify({ code, msg, data: {} }) },
  }
}
