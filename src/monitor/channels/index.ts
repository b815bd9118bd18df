import type { Channel } from './channel.ts'
import { type ChannelConfig, type ChannelOptions, openConfig, refuse } from './config.ts'
import { createDingTalk } from './dingtalk.ts'
import { createFeishu } from './feishu.ts'
import { createSlack } from './slack.ts'
import { createWebhook } from './webhook.ts'
import { createWeCom } from './wecom.ts'

/** The ways to reach people, by the `type` of a subscription's channel. */

export type { ChannelOptions } from './config.ts'

const types: Readonly<Record<string, (config: ChannelConfig) => Channel>> = {
  dingtalk: createDingTalk,
  feishu: createFeishu,
  wecom: createWeCom,
  slack: createSlack,
  webhook: createWebhook,
}

/** The types that a channel can have. */
export const channelTypes: readonly string[] = Object.freeze(Object.keys(types))

/** The channel that a subscription describes; `invalid_argument` names the field that is wrong and shows no value. */
export function parseChannel(config: unknown, options: ChannelOptions): Channel {
  const opened = openConfig(config, options)
  const { type } = opened.fields
  const create = typeof type === 'string' && Object.hasOwn(types, type) ? types[type] : undefined
  return create === undefined ? refuse('channel.type', `one of ${channelTypes.join(', ')}`) : create(opened)
}
