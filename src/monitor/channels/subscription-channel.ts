/**
 * How a subscription reaches people, by `type`; each type has fields of its own. Each goes through one robot (`url`), or
 * through several that share the work (`robots`).
 */
export type SubscriptionChannel =
  | DingTalkChannel
  | FeishuChannel
  | WeComChannel
  | SlackChannel
  | WebhookChannel

/** A custom robot of a DingTalk group. */
export type DingTalkChannel = Through<RobotWithSecret> & {
  readonly type: 'dingtalk'
  /** @default 'markdown' */
  readonly format?: 'markdown' | 'text' | 'actionCard' | undefined
  /** Who is mentioned: numbers of mobile phones. */
  readonly atMobiles?: readonly string[] | undefined
  /** Who is mentioned: ids of users. */
  readonly atUserIds?: readonly string[] | undefined
  readonly isAtAll?: boolean | undefined
  /** Put into a message that lacks it, for robots that want one. */
  readonly keyword?: string | undefined
  /** Of an `actionCard`, which needs one. */
  readonly button?: { readonly title: string; readonly url: string } | undefined
}

/** A custom bot of a Feishu (Lark) group. */
export type FeishuChannel = Through<RobotWithSecret> & {
  readonly type: 'feishu'
  /** @default 'post' */
  readonly format?: 'post' | 'text' | undefined
  /** Ids of users, or 'all'. */
  readonly mentioned?: readonly string[] | undefined
  /** Put into a message that lacks it, for bots that want one. */
  readonly keyword?: string | undefined
}

/** A robot of a WeCom (Enterprise WeChat) group; its key is in the url. */
export type WeComChannel = Through<KeylessRobot> & {
  readonly type: 'wecom'
  /** @default 'markdown' */
  readonly format?: 'markdown' | 'text' | undefined
  /** Ids of users, or '@all'. */
  readonly mentioned?: readonly string[] | undefined
  /** Numbers of mobile phones, or '@all'. */
  readonly mentionedMobiles?: readonly string[] | undefined
}

/** An incoming webhook of Slack; its key is in the url. */
export type SlackChannel = Through<KeylessRobot> & {
  readonly type: 'slack'
}

/** A signed request to a program of yours; `verifyWebhook` is its other side. */
export type WebhookChannel = Through<WebhookAddress> & {
  readonly type: 'webhook'
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

interface RobotWithSecret {
  readonly url: string
  readonly secret?: string | undefined
}

interface KeylessRobot {
  readonly url: string
  readonly secret?: undefined
}

interface WebhookAddress {
  readonly url: string
  /** What requests are signed with. */
  readonly secret: string
}

type Through<Robot> =
  | (Robot & { readonly robots?: undefined })
  | { readonly robots: readonly Robot[]; readonly url?: undefined; readonly secret?: undefined }
