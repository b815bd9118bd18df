import type { Channel } from './channel.ts'
import { type ChannelConfig, type ChannelOptions, openConfig, refuse } from './channel-config.ts'
import { createDingTalk, dingTalkSecrets } from './dingtalk.ts'
import { createFeishu, feishuSecrets } from './feishu.ts'
import { createSlack, slackSecrets } from './slack.ts'
import { createWebhook, webhookSecrets } from './webhook.ts'
import { createWeCom, weComSecrets } from './wecom.ts'

/** The ways to reach people, by the `type` of a subscription's channel. */

export type { ChannelOptions } from './channel-config.ts'

interface ChannelType {
  readonly create: (config: ChannelConfig) => Channel
  /** The fields that are sealed in the store. */
  readonly secrets: readonly string[]
}

const types: Readonly<Record<string, ChannelType>> = {
  dingtalk: { create: createDingTalk, secrets: dingTalkSecrets },
  feishu: { create: createFeishu, secrets: feishuSecrets },
  wecom: { create: createWeCom, secrets: weComSecrets },
  slack: { create: createSlack, secrets: slackSecrets },
  webhook: { create: createWebhook, secrets: webhookSecrets },
}

/** The types that a channel can have. */
export const channelTypes: readonly string[] = Object.freeze(Object.keys(types))

/** The fields of a channel that are secret; undefined: the type is not known. */
export function secretFieldsOf(type: string): readonly string[] | undefined {
  return Object.hasOwn(types, type) ? types[type]!.secrets : undefined
}

/** The channel that a subscription describes; `invalid_argument` names the field that is wrong and shows no value. */
export function parseChannel(config: unknown, options: ChannelOptions): Channel {
  const opened = openConfig(config, options)
  const { type } = opened.fields
  const found = typeof type === 'string' && Object.hasOwn(types, type) ? types[type] : undefined
  return found === undefined
    ? refuse('channel.type', `one of ${channelTypes.join(', ')}`)
    : found.create(opened)
}
