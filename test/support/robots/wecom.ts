import {
  createWindow,
  type Decision,
  isText,
  parseJson,
  type StandIn,
  type StandInOptions,
  startStandIn,
} from './stand-in.ts'

export interface WeComOptions extends StandInOptions {
  readonly key?: string
  /** @default 20 */
  readonly perMinute?: number
}

/** A WeCom robot: its key in the url, text of 2,048 and Markdown of 4,096 bytes, 20 a minute. */
export async function startWeCom(options: WeComOptions = {}): Promise<StandIn> {
  const { key = 'wecom-key-0123456789', perMinute = 20 } = options
  const window = createWindow(perMinute, 60_000)

  return await startStandIn(`/cgi-bin/webhook/send?key=${key}`, options, (request) => {
    const { url, raw, at } = request
    const isRight = url.pathname === '/cgi-bin/webhook/send' && url.searchParams.get('key') === key
    if (request.method !== 'POST' || !isRight) return refused(93000, 'invalid webhook url')
    if (!window.take(at)) return refused(45009, 'api freq out of limit')
    const body = parseJson(raw)
    const kind = body?.msgtype
    if (body === undefined || (kind !== 'text' && kind !== 'markdown')) {
      return refused(40008, 'invalid message type')
    }
    const content = (body[kind] as { content?: unknown } | undefined)?.content
    if (!isText(content)) return refused(44004, 'empty content')
    const most = kind === 'text' ? 2_048 : 4_096
    if (Buffer.byteLength(content) > most) {
      return refused(40058, `${kind}.content exceed max length ${most}. invalid Request Parameter`)
    }
    return { taken: true, text: content, body, answer: { status: 200, body: '{"errcode":0,"errmsg":"ok"}' } }
  })
}

function refused(errcode: number, errmsg: string): Decision {
  const answer = { status: 200, body: JSON.stringify({ errcode, errmsg }) }
  return { taken: false, code: errcode, why: errmsg, answer }
}
