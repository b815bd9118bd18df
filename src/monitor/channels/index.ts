import { type Channel, type ChannelOptions, type ChannelType, openConfig, refuse } from './channel.ts'
import { type DingTalkChannel, dingTalk } from './dingtalk.ts'
import { type FeishuChannel, feishu } from './feishu.ts'
import { type SlackChannel, slack } from './slack.ts'
import { type WebhookChannel, webhook } from './webhook.ts'
import { type WeComChannel, weCom } from './wecom.ts'

export type { DingTalkChannel, FeishuChannel, SlackChannel, WebhookChannel, WeComChannel }

/** The channel of a subscription; each type has its own fields. */
export type SubscriptionChannel =
  | DingTalkChannel
  | FeishuChannel
  | WeComChannel
  | SlackChannel
  | WebhookChannel

/** By the `type` of a subscription's channel. Add a new channel here. */
const types: Readonly<Record<string, ChannelType>> = {
  dingtalk: dingTalk,
  feishu,
  wecom: weCom,
  slack,
  webhook,
}

/** The types that a channel can have. */
export const channelTypes: readonly string[] = Object.freeze(Object.keys(types))

/** The fields of a channel that the store seals; undefined: the type is unknown. */
export function secretFieldsOf(type: string): readonly string[] | undefined {
  return Object.hasOwn(types, type) ? types[type]!.secrets : undefined
}

/** Creates the channel of a subscription. Throws `invalid_argument` with the name of a wrong field, without its value. */
export function parseChannel(config: unknown, options: ChannelOptions): Channel {
  const opened = openConfig(config, options)
  const { type } = opened.fields
  const found = typeof type === 'string' && Object.hasOwn(types, type) ? types[type] : undefined
  return found === undefined
    ? refuse('channel.type', `one of ${channelTypes.join(', ')}`)
    : found.create(opened)
}
