import type { ShownPlace } from '../subject-forms.ts'

/**
 * A way to reach people: what a message becomes for one provider, and what the provider's answer means. Pure: sending
 * is done by outbound.ts, which alone meets the network.
 */
export interface Channel {
  /** A key of the table in index.ts. */
  readonly type: string
  /** How the robot or address is known: SHA-256 (hexadecimal) of type and addresses. Subscriptions that share it share its limits. */
  readonly key: string
  /** What may be shown to people: no secret, no query, no key in a path. */
  readonly shown: string
  /** One or several that a message may go through, by url; each has its own limits. */
  readonly robots: readonly Robot[]
  readonly limits: ChannelLimits
  /** The requests that send this message; several where one would be too large. `now` is the store's clock. */
  compose(message: Message, robot: Robot, now: number): readonly OutboundRequest[]
  /** What the provider's answer means. */
  judge(reply: OutboundReply): SendVerdict
}

export interface Robot {
  readonly url: string
  readonly secret: string | null
}

/** What a provider takes. Every request counts, also each of the several that one message became. */
export interface ChannelLimits {
  /** Messages each robot takes within `perMs`; null: no limit known. */
  readonly rate: Rate | null
  /** A second, shorter window that holds as well; null: none. */
  readonly burst: Rate | null
  /** Of a request's body, or of the text in it where the provider counts only that. `compose` keeps to it. */
  readonly maxBytes: number
  /** How many requests may be under way at once. */
  readonly concurrency: number
}

export interface Rate {
  readonly messages: number
  readonly perMs: number
}

/** A message to a channel. One with more than one change is a digest. */
export interface Message {
  /** The notification's or the digest's id: the same when it is sent again. */
  readonly id: string
  readonly kind: 'change' | 'flapping' | 'reconcile' | 'digest' | 'test'
  readonly title: string
  readonly changes: readonly MessageChange[]
  /** It may have reached you before. */
  readonly possibleRepeat: boolean
}

export interface MessageChange extends ShownPlace {
  readonly notificationId: string
  readonly from: unknown
  readonly to: unknown
  /** One line for people, from the template. */
  readonly line: string
  readonly at: number
}

export interface OutboundRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What came back; `status` 0: nothing did, `problem` says why, without secrets. `sure`: nothing can have reached the provider. */
export interface OutboundReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly problem?: string
  readonly sure?: boolean
}

/**
 * `retry`: it was not taken, try again (after `afterMs` where the provider said so); `penaltyMs`: leave this robot alone
 * for that long; it costs no try. `refused`: trying again is of no use. `unknown`: it may or may not have been taken.
 */
export type SendVerdict =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'retry'
      readonly reason: string
      readonly afterMs?: number
      readonly penaltyMs?: number
    }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unknown'; readonly reason: string }
