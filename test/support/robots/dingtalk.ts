import { createHmac } from 'node:crypto'
import {
  createWindow,
  type Decision,
  isText,
  parseJson,
  type Request,
  type StandIn,
  type StandInOptions,
  startStandIn,
} from './stand-in.ts'

export interface DingTalkOptions extends StandInOptions {
  readonly token?: string
  /** Requests must be signed with it. */
  readonly secret?: string
  /** Messages must contain it. */
  readonly keyword?: string
  /** @default 20 */
  readonly perMinute?: number
  /** How long the robot is silent after one message too many. @default 600_000 */
  readonly banMs?: number
}

/** A DingTalk robot: always HTTP 200, signed within the hour, 20,000 bytes, 20 a minute or ten minutes' silence. */
export async function startDingTalk(options: DingTalkOptions = {}): Promise<StandIn> {
  const { token = 'ding-token-0123456789', secret, keyword, perMinute = 20, banMs = 600_000 } = options
  const window = createWindow(perMinute, 60_000)
  let bannedUntil = 0

  return await startStandIn(`/robot/send?access_token=${token}`, options, (request) => {
    const { url, at } = request
    if (request.method !== 'POST' || url.pathname !== '/robot/send') return refused(404, 'no such path')
    if (url.searchParams.get('access_token') !== token) return refused(300005, 'token is not exist')
    if (!request.headers['content-type']?.startsWith('application/json')) {
      return refused(43004, '无效的HTTP HEADER Content-Type')
    }
    const problem = secret === undefined ? undefined : badSignature(request, secret)
    if (problem !== undefined) return refused(310000, problem)
    if (at < bannedUntil) return refused(130101, 'send too fast, exceed 20 times per minute')
    if (!window.take(at)) {
      bannedUntil = at + banMs
      return refused(130101, 'send too fast, exceed 20 times per minute')
    }
    if (request.bytes > 20_000) return refused(460101, 'message too long, exceed 20000 bytes')
    const body = parseJson(request.raw)
    const text = body && textOf(body)
    if (body === undefined || text === undefined) return refused(40035, '缺少参数 json')
    if (keyword !== undefined && !text.includes(keyword)) {
      return refused(310000, 'description:关键词不匹配;solution:请联系群管理员查看此机器人的关键词')
    }
    return { taken: true, text, body, answer: { status: 200, body: '{"errcode":0,"errmsg":"ok"}' } }
  })
}

function badSignature({ url, at }: Request, secret: string): string | undefined {
  const timestamp = url.searchParams.get('timestamp') ?? ''
  if (!/^\d{13}$/.test(timestamp) || Math.abs(at - Number(timestamp)) > 3_600_000) return 'invalid timestamp'
  const expected = createHmac('sha256', secret).update(`${timestamp}\n${secret}`).digest('base64')
  return url.searchParams.get('sign') === expected ? undefined : 'sign not match'
}

// biome-ignore lint/suspicious/noExplicitAny: it is what is being checked.
function textOf(body: any): string | undefined {
  const { msgtype, text, markdown, actionCard } = body
  if (msgtype === 'text' && isText(text?.content)) return text.content
  if (msgtype === 'markdown' && isText(markdown?.title) && isText(markdown.text)) return markdown.text
  if (msgtype !== 'actionCard' || !isText(actionCard?.title) || !isText(actionCard.text)) return undefined
  const hasButton = isText(actionCard.singleTitle) && isText(actionCard.singleURL)
  return hasButton || Array.isArray(actionCard.btns) ? actionCard.text : undefined
}

function refused(errcode: number, errmsg: string): Decision {
  const answer = { status: errcode === 404 ? 404 : 200, body: JSON.stringify({ errcode, errmsg }) }
  return { taken: false, code: errcode, why: errmsg, answer }
}
