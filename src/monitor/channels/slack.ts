import { createHiding, judgeStatus } from './answers.ts'
import {
  allowFields,
  type Channel,
  type ChannelConfig,
  type ChannelType,
  identify,
  jsonRequest,
  type KeylessRobot,
  type Message,
  type OutboundReply,
  type OutboundRequest,
  type Robot,
  readRobots,
  robotSecrets,
  type SendVerdict,
  type Through,
} from './channel.ts'
import { jsonBytes, layOut, type Page } from './paging.ts'

/** An incoming webhook of Slack: its key is in the url, one message a second, errors as HTTP statuses, no signature. */
export type SlackChannel = Through<KeylessRobot> & {
  readonly type: 'slack'
}

// Slack cuts a message at 40,000 characters; these bytes are fewer in every script, and still one screen after another.
const maxBytes = 16_000

function create(config: ChannelConfig): Channel {
  allowFields(config, [])
  const robots = readRobots(config, { secret: 'none' })
  const hide = createHiding(robots)
  return Object.freeze({
    ...identify('slack', robots),
    limits: { rate: { messages: 1, perMs: 1_000 }, burst: null, maxBytes, concurrency: 1 },
    compose: (message: Message, robot: Robot) => compose(message, robot),
    judge: (reply) => judge(reply, hide),
  } satisfies Channel)
}

function judge(reply: OutboundReply, hide: (text: string) => string): SendVerdict {
  return judgeStatus(reply, hide, () =>
    reply.body.trim() === 'ok'
      ? { kind: 'sent' }
      : {
          kind: 'unknown',
          reason: `HTTP ${reply.status}, but not with Slack's "ok": it may not have been taken`,
        },
  )
}

function compose(message: Message, robot: Robot): readonly OutboundRequest[] {
  const pages = layOut(message, {
    maxBytes,
    frameBytes: (title) => Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true })),
    lineBytes: (line) => jsonBytes(`\n• ${escapeSlack(line)}`),
  })
  return pages.map((page) => jsonRequest(robot.url, bodyOf(page)))
}

function bodyOf({ title, lines }: Page): string {
  const text = [escapeSlack(title), ...lines.map((line) => `• ${escapeSlack(line)}`)].join('\n')
  // Without mrkdwn stars and backticks of a name are themselves; `parse` and `link_names` leave @ and # alone.
  return JSON.stringify({
    text,
    mrkdwn: false,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  })
}

// These three are all that Slack asks for: `<!channel>`, `<@U1>` and `<http://…|x>` begin with one of them.
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** The path of the url is the key. */
export const slack: ChannelType = { create, secrets: robotSecrets }
