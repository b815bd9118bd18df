import {
  type Answer,
  type Decision,
  isText,
  parseJson,
  type StandIn,
  type StandInOptions,
  startStandIn,
} from './stand-in.ts'

export interface SlackOptions extends StandInOptions {
  readonly token?: string
  /** @default 1 */
  readonly perSecond?: number
  /** The number of messages accepted at once before the rate applies, as Slack allows for short bursts. @default 2 */
  readonly burst?: number
}

/** A Slack webhook: errors are statuses with a word, one message a second, then 429 with Retry-After. */
export async function startSlack(options: SlackOptions = {}): Promise<StandIn> {
  const { token = 'T0123456789/B0123456789/slacktoken0123456789', perSecond = 1, burst = 2 } = options
  let tokens = burst
  let countedAt = 0

  return await startStandIn(`/services/${token}`, options, ({ url, method, raw, at }) => {
    if (method !== 'POST' || url.pathname !== `/services/${token}`) return refused(404, 'no_service')
    tokens = Math.min(burst, tokens + (Math.max(0, at - countedAt) / 1_000) * perSecond)
    countedAt = at
    if (tokens < 1) {
      const seconds = Math.ceil((1 - tokens) / perSecond)
      return refused(429, 'rate_limited', { 'retry-after': String(seconds) })
    }
    tokens -= 1
    const body = parseJson(raw)
    if (body === undefined) return refused(400, 'invalid_payload')
    if (!isText(body.text)) return refused(400, 'no_text')
    if (body.text.length > 40_000) return refused(400, 'msg_too_long')
    return { taken: true, text: body.text, body, answer: text(200, 'ok') }
  })
}

function refused(status: number, word: string, headers: Readonly<Record<string, string>> = {}): Decision {
  return { taken: false, code: status, why: word, answer: text(status, word, headers) }
}

function text(status: number, body: string, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { 'content-type': 'text/html', ...headers }, body }
}
