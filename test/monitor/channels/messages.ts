import type {
  Channel,
  Message,
  MessageChange,
  OutboundReply,
  SendVerdict,
} from '../../../src/monitor/channels/channel.ts'
import { parseChannel } from '../../../src/monitor/channels/index.ts'
import type { Outbound } from '../../../src/monitor/delivery/outbound.ts'

/** Where the stand-ins are. */
export const local: readonly string[] = ['127.0.0.0/8']

export function aChange(line: string, more: Partial<MessageChange> = {}): MessageChange {
  return {
    notificationId: 'n1',
    source: 'city',
    timeSlot: '18:00',
    venueId: 'v1',
    from: { free: 0 },
    to: { free: 2 },
    line,
    at: 1_700_000_000_000,
    ...more,
  }
}

export function aMessage(lines: readonly string[], more: Partial<Message> = {}): Message {
  return {
    id: 'message-1',
    kind: lines.length > 1 ? 'digest' : 'change',
    title: 'Venues changed',
    changes: lines.map((line) => aChange(line)),
    possibleRepeat: false,
    ...more,
  }
}

/** A channel as a subscription on this machine has it. */
export function aChannel(config: object): Channel {
  return parseChannel(config, { allowPrivate: local })
}

/** Sends all that a message becomes through the channel's first robot, and judges each answer. */
export async function notify(
  outbound: Outbound,
  channel: Channel,
  message: Message,
  now: number = Date.now(),
): Promise<readonly SendVerdict[]> {
  const verdicts: SendVerdict[] = []
  for (const request of channel.compose(message, channel.robots[0]!, now)) {
    verdicts.push(channel.judge(await outbound.send(request)))
  }
  return verdicts
}

/** An answer as a provider gives it. */
export function aReply(
  status: number,
  body: unknown = '',
  headers: Record<string, string> = {},
): OutboundReply {
  return { status, headers, body: typeof body === 'string' ? body : JSON.stringify(body) }
}
