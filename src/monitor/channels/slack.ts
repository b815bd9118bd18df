import { judgeStatus } from './answers.ts'
import {
  type ChannelType,
  createChannelType,
  jsonRequest,
  type KeylessRobot,
  type Through,
} from './channel.ts'
import { jsonBytes, layOut, type Page } from './paging.ts'

/** An incoming webhook of Slack. Its key is in the path of the url; it accepts one message a second. */
export type SlackChannel = Through<KeylessRobot> & {
  readonly type: 'slack'
}

// Slack cuts a message at 40,000 characters. This many bytes are fewer characters in every script.
const maxBytes = 16_000

export const slack: ChannelType = createChannelType({
  type: 'slack',
  robots: { secret: 'none' },
  limits: { rate: { messages: 1, perMs: 1_000 }, burst: null, maxBytes, concurrency: 1 },
  fields: [],
  readStyle: () => null,
  compose(message, { robot }) {
    const pages = layOut(message, {
      maxBytes,
      frameBytes: (title) => Buffer.byteLength(bodyOf({ title, lines: [], isFirst: true })),
      lineBytes: (line) => jsonBytes(`\n• ${escapeSlack(line)}`),
    })
    return pages.map((page) => jsonRequest(robot.url, bodyOf(page)))
  },
  judge: (reply, hide) =>
    judgeStatus(reply, hide, () => {
      if (reply.body.trim() === 'ok') return { kind: 'sent' }
      const reason = `HTTP ${reply.status}, but not with Slack's "ok": it may not have been taken`
      return { kind: 'unknown', reason }
    }),
})

function bodyOf({ title, lines }: Page): string {
  const text = [escapeSlack(title), ...lines.map((line) => `• ${escapeSlack(line)}`)].join('\n')
  // Without `mrkdwn`, stars and backticks stay characters. `parse` and `link_names` do the same for @ and #.
  return JSON.stringify({
    text,
    mrkdwn: false,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  })
}

// Slack asks for these three: `<!channel>`, `<@U1>` and `<http://…|x>` begin with one of them.
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
