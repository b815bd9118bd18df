import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import { invalidArgument } from '../../core/errors.ts'
import { onlyKeys } from '../../core/options.ts'
import { type AddressRules, parseAddressRules, toAllowPrivate } from '../delivery/address-rules.ts'
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

/**
 * Reads what a subscription says about its channel. No complaint quotes a value: urls and secrets are in here, and a
 * value in the wrong field may be one of them.
 */

/** What is given and not yet checked, with the rules about addresses. */
export interface ChannelConfig {
  readonly fields: Readonly<Record<string, unknown>>
  readonly rules: AddressRules
  /** Whether the operator allows any address that is not public. */
  readonly allowsPrivate: boolean
}

export interface ChannelOptions {
  /** Addresses and ranges that may be reached although they are not public. */
  readonly allowPrivate: readonly string[]
}

/** The fields of a channel that goes through one robot (`url`), or through several that share the work (`robots`). */
export type Through<Robot> =
  | (Robot & { readonly robots?: undefined })
  | { readonly robots: readonly Robot[]; readonly url?: undefined; readonly secret?: undefined }

export interface RobotWithSecret {
  readonly url: string
  readonly secret?: string | undefined
}

/** The key of such a robot is in its url. */
export interface KeylessRobot {
  readonly url: string
  readonly secret?: undefined
}

/** The config as an object whose fields can be asked for. */
export function openConfig(config: unknown, { allowPrivate }: ChannelOptions): ChannelConfig {
  const rules = parseAddressRules(allowPrivate)
  return { fields: object('channel', config), rules, allowsPrivate: allowPrivate.length > 0 }
}

/** The fields of a robot that are its credentials: the whole url, because its path or query holds a key. */
export const robotSecrets: readonly string[] = ['url', 'secret', 'robots']

const robotFields = ['type', 'url', 'secret', 'robots']

/** That there are no fields but those of every channel and these. */
export function allowFields({ fields }: ChannelConfig, own: readonly string[]): void {
  onlyKeys('channel', fields, [...robotFields, ...own])
}

/** How a type of robot is addressed. */
export interface RobotRules {
  readonly secret: 'optional' | 'required' | 'none'
  /** A key that must be in the url's query. */
  readonly queryKey?: string
}

/** The robot of `{ url, secret }`, or all of `{ robots: [{ url, secret }] }`; sorted, so that order makes no other channel. */
export function readRobots(config: ChannelConfig, robotRules: RobotRules): readonly Robot[] {
  const { url, secret, robots } = config.fields
  if (robots === undefined) return [readRobot('channel', { url, secret }, config, robotRules)]
  if (url !== undefined || secret !== undefined) {
    return refuse(
      'channel.robots',
      'given without channel.url and channel.secret: they belong into its entries',
    )
  }
  const read = list('channel.robots', robots, { min: 1, max: 100 }).map((entry, at) => {
    const name = `channel.robots[${at}]`
    const fields = object(name, entry)
    onlyKeys(name, fields, ['url', 'secret'])
    return readRobot(name, fields, config, robotRules)
  })
  if (new Set(read.map((robot) => robot.url)).size < read.length) {
    refuse('channel.robots', 'a list in which no url is twice')
  }
  return read.sort((a, b) => (a.url < b.url ? -1 : 1))
}

function readRobot(
  name: string,
  fields: Readonly<Record<string, unknown>>,
  config: ChannelConfig,
  { secret, queryKey }: RobotRules,
): Robot {
  const url = readUrl(`${name}.url`, fields.url, config)
  if (queryKey !== undefined && !new URL(url).searchParams.get(queryKey)) {
    refuse(`${name}.url`, `the whole address of the robot, with its ${queryKey}`)
  }
  return { url, secret: readSecret(`${name}.secret`, fields.secret, secret) }
}

function readUrl(name: string, value: unknown, { rules, allowsPrivate }: ChannelConfig): string {
  const url = typeof value === 'string' && value.length <= 2_048 ? URL.parse(value) : null
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    return refuse(name, 'an https address of at most 2048 characters')
  }
  if (url.username !== '' || url.password !== '') {
    return refuse(name, 'an address without a user name and a password')
  }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const isLiteral = isIP(host) !== 0
  if (isLiteral && !rules.isAllowed(host)) {
    return refuse(name, `a public address: this one is private, local or reserved. ${toAllowPrivate}`)
  }
  // What a name stands for is known when the connection is made; outbound.ts judges it then, each time.
  if (url.protocol === 'http:' && !(isLiteral ? rules.isNamed(host) : allowsPrivate)) {
    return refuse(
      name,
      `an https address: plain http is only for private addresses that you allow. ${toAllowPrivate}`,
    )
  }
  url.hash = ''
  return url.href
}

function readSecret(name: string, value: unknown, need: RobotRules['secret']): string | null {
  if (value === undefined || value === null) {
    return need === 'required' ? refuse(name, 'given: messages are signed with it') : null
  }
  if (need === 'none') return refuse(name, 'left out: this kind of robot has its key in the url alone')
  const isSound = typeof value === 'string' && /^[\x21-\x7e]{1,512}$/.test(value)
  return isSound ? value : refuse(name, 'text of 1 to 512 visible ASCII characters')
}

/** One of the texts listed; the first is the default. */
export function readChoice<const Choice extends string>(
  { fields }: ChannelConfig,
  name: string,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  const value = fields[name] ?? choices[0]
  const isKnown = (choices as readonly unknown[]).includes(value)
  return isKnown ? (value as Choice) : refuse(`channel.${name}`, `one of ${choices.join(', ')}`)
}

/** A list of texts that each match; empty when left out. */
export function readTexts(
  { fields }: ChannelConfig,
  name: string,
  pattern: RegExp,
  each: string,
): readonly string[] {
  const value = fields[name]
  if (value === undefined) return []
  return list(`channel.${name}`, value, { min: 0, max: 50 }).map((entry, at) => {
    const isSound = typeof entry === 'string' && pattern.test(entry)
    return isSound ? entry : refuse(`channel.${name}[${at}]`, each)
  })
}

/** True or false; false when left out. */
export function readFlag({ fields }: ChannelConfig, name: string): boolean {
  const value = fields[name] ?? false
  return typeof value === 'boolean' ? value : refuse(`channel.${name}`, 'true or false')
}

/** A short text on one line; undefined when left out. */
export function readText({ fields }: ChannelConfig, name: string, max: number): string | undefined {
  return fields[name] === undefined ? undefined : textOf(`channel.${name}`, fields[name], max)
}

/** A text of 1 to `max` characters on one line. */
export function textOf(name: string, value: unknown, max: number): string {
  const isSound =
    typeof value === 'string' && value.length <= max && value.isWellFormed() && /^\P{Cc}+$/u.test(value)
  return isSound ? value : refuse(name, `text of 1 to ${max} characters on one line`)
}

/** The value as an object of fields. */
export function object(name: string, value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? (value as Record<string, unknown>) : refuse(name, 'an object')
}

function list(
  name: string,
  value: unknown,
  { min, max }: { readonly min: number; readonly max: number },
): readonly unknown[] {
  const isSound = Array.isArray(value) && value.length >= min && value.length <= max
  return isSound ? value : refuse(name, `a list of ${min} to ${max}`)
}

/** Throws `invalid_argument` that names the field and what it must be, never what it is. */
export function refuse(name: string, allowed: string): never {
  throw invalidArgument(`${name} must be ${allowed}.`, name)
}

/** A type of channel, for the table in index.ts. */
export interface ChannelType {
  readonly create: (config: ChannelConfig) => Channel
  /** The fields that are sealed in the store. */
  readonly secrets: readonly string[]
}

/** A request with a JSON body. */
export function jsonRequest(url: string, body: string): OutboundRequest {
  return { url, headers: { 'content-type': 'application/json; charset=utf-8' }, body }
}

/** How a channel is known to programs and to people. */
export function identify(
  type: string,
  robots: readonly Robot[],
): {
  readonly type: string
  readonly robots: readonly Robot[]
  readonly key: string
  readonly shown: string
} {
  const key = hash('sha256', JSON.stringify([type, ...robots.map(({ url }) => url)]))
  const hosts = [...new Set(robots.map(({ url }) => new URL(url).host))]
  const where = hosts.length > 3 ? `${hosts.slice(0, 3).join(', ')}…` : hosts.join(', ')
  const count = robots.length === 1 ? '' : ` (${robots.length} robots)`
  // Six digits of the digest distinguish two robots of one provider and give nothing away.
  return { type, robots, key, shown: `${type} ${where}${count} #${key.slice(0, 6)}` }
}
