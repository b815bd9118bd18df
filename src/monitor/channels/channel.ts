import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import { invalidArgument } from '../../core/errors.ts'
import { onlyKeys } from '../../core/options.ts'
import { type AddressRules, parseAddressRules, toAllowPrivate } from '../delivery/address-rules.ts'
import type { ShownPlace } from '../subject-forms.ts'
import { createHiding } from './answers.ts'

/**
 * A channel to subscribers: turns a message into requests to one provider, and judges the provider's replies. Pure: only
 * outbound.ts uses the network.
 */
export interface Channel {
  /** A key of the table in index.ts. */
  readonly type: string
  /** SHA-256 (hexadecimal) of type and addresses. Subscriptions with the same key share its limits. */
  readonly key: string
  /** The text for operators: no secret, no query, no key in a path. */
  readonly shown: string
  /** Sorted by url. A message goes through one of them; each has its own limits. */
  readonly robots: readonly Robot[]
  readonly limits: ChannelLimits
  /** The requests that send this message; several if one would be too large. `now` is the store's clock. */
  compose(message: Message, robot: Robot, now: number): readonly OutboundRequest[]
  /** Judges the provider's reply. */
  judge(reply: OutboundReply): SendVerdict
}

export interface Robot {
  readonly url: string
  readonly secret: string | null
}

/** The limits of a provider. Every request counts, also if a message needs several. */
export interface ChannelLimits {
  /** The most messages of each robot within `perMs`; null: no known limit. */
  readonly rate: Rate | null
  /** A second limit with a shorter window; null: none. */
  readonly burst: Rate | null
  /** The most bytes of a request's body, or of its text if the provider counts only that. `compose` obeys it. */
  readonly maxBytes: number
  /** The most requests in flight. */
  readonly concurrency: number
}

export interface Rate {
  readonly messages: number
  readonly perMs: number
}

/** A message to a channel. One with more than one change is a digest. */
export interface Message {
  /** The id of the notification or the digest. A repeat has the same id. */
  readonly id: string
  readonly kind: 'change' | 'flapping' | 'reconcile' | 'digest' | 'test'
  readonly title: string
  readonly changes: readonly MessageChange[]
  /** The message may have arrived before. */
  readonly possibleRepeat: boolean
}

export interface MessageChange extends ShownPlace {
  readonly notificationId: string
  readonly from: unknown
  readonly to: unknown
  /** The line of the message, from the template. */
  readonly line: string
  readonly at: number
}

export interface OutboundRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * The provider's reply. `status` 0: no reply; `problem` has the reason, without secrets. `sure`: the request cannot have
 * reached the provider.
 */
export interface OutboundReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly problem?: string
  readonly sure?: boolean
}

/**
 * `retry`: the provider did not accept the message; send it again, after `afterMs` if the provider gave a time. With
 * `penaltyMs` the robot rests that long, and the try does not count. `refused`: another try would fail too. `unknown`:
 * the provider may have accepted it.
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
 * The unchecked fields of a subscription's channel, with the rules about addresses. No error quotes a value, because any
 * field may hold a url or a secret by mistake.
 */
export interface ChannelConfig {
  readonly fields: Readonly<Record<string, unknown>>
  readonly rules: AddressRules
  /** Whether the operator allows any private address. */
  readonly allowsPrivate: boolean
}

export interface ChannelOptions {
  /** Private addresses and ranges that channels may reach. */
  readonly allowPrivate: readonly string[]
}

/** The fields that name one robot (`url`), or several robots that share the messages (`robots`). */
export type Through<Robot> =
  | (Robot & { readonly robots?: undefined })
  | { readonly robots: readonly Robot[]; readonly url?: undefined; readonly secret?: undefined }

export interface RobotWithSecret {
  readonly url: string
  readonly secret?: string | undefined
}

/** A robot whose key is in its url. */
export interface KeylessRobot {
  readonly url: string
  readonly secret?: undefined
}

/** Checks that the config is an object, so that its fields can be read. */
export function openConfig(config: unknown, { allowPrivate }: ChannelOptions): ChannelConfig {
  const rules = parseAddressRules(allowPrivate)
  return { fields: object('channel', config), rules, allowsPrivate: allowPrivate.length > 0 }
}

/** The rules for the url and the secret of a robot. */
export interface RobotRules {
  readonly secret: 'optional' | 'required' | 'none'
  /** A parameter that the url's query must have. */
  readonly queryKey?: string
  /** Refuses a secret that this provider cannot use. */
  checkSecret?(name: string, secret: string): void
}

/** Reads `{ url, secret }` or `{ robots: [{ url, secret }] }`. Sorts the robots: another order is the same channel. */
function readRobots(config: ChannelConfig, robotRules: RobotRules): readonly Robot[] {
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
  { secret: need, queryKey, checkSecret }: RobotRules,
): Robot {
  const url = readUrl(`${name}.url`, fields.url, config)
  if (queryKey !== undefined && !new URL(url).searchParams.get(queryKey)) {
    refuse(`${name}.url`, `the whole address of the robot, with its ${queryKey}`)
  }
  const secret = readSecret(`${name}.secret`, fields.secret, need)
  if (secret !== null) checkSecret?.(`${name}.secret`, secret)
  return { url, secret }
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
  // A name is resolved when a connection opens; outbound.ts checks its addresses then.
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
  const isValid = typeof value === 'string' && /^[\x21-\x7e]{1,512}$/.test(value)
  return isValid ? value : refuse(name, 'text of 1 to 512 visible ASCII characters')
}

/** Reads one of the listed texts. The first is the default. */
export function readChoice<const Choice extends string>(
  { fields }: ChannelConfig,
  name: string,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  const value = fields[name] ?? choices[0]
  const isKnown = (choices as readonly unknown[]).includes(value)
  return isKnown ? (value as Choice) : refuse(`channel.${name}`, `one of ${choices.join(', ')}`)
}

/** Reads a list of texts that match the pattern. The default is an empty list. */
export function readTexts(
  { fields }: ChannelConfig,
  name: string,
  pattern: RegExp,
  each: string,
): readonly string[] {
  const value = fields[name]
  if (value === undefined) return []
  return list(`channel.${name}`, value, { min: 0, max: 50 }).map((entry, at) => {
    const isValid = typeof entry === 'string' && pattern.test(entry)
    return isValid ? entry : refuse(`channel.${name}[${at}]`, each)
  })
}

/** Reads true or false. The default is false. */
export function readFlag({ fields }: ChannelConfig, name: string): boolean {
  const value = fields[name] ?? false
  return typeof value === 'boolean' ? value : refuse(`channel.${name}`, 'true or false')
}

/** Reads a short text on one line; undefined: not given. */
export function readText({ fields }: ChannelConfig, name: string, max: number): string | undefined {
  return fields[name] === undefined ? undefined : textOf(`channel.${name}`, fields[name], max)
}

/** Checks a text of 1 to `max` characters on one line. */
export function textOf(name: string, value: unknown, max: number): string {
  const isValid =
    typeof value === 'string' && value.length <= max && value.isWellFormed() && /^\P{Cc}+$/u.test(value)
  return isValid ? value : refuse(name, `text of 1 to ${max} characters on one line`)
}

/** Checks that the value is an object. */
export function object(name: string, value: unknown): Readonly<Record<string, unknown>> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? (value as Record<string, unknown>) : refuse(name, 'an object')
}

function list(
  name: string,
  value: unknown,
  { min, max }: { readonly min: number; readonly max: number },
): readonly unknown[] {
  const isValid = Array.isArray(value) && value.length >= min && value.length <= max
  return isValid ? value : refuse(name, `a list of ${min} to ${max}`)
}

/** Throws `invalid_argument` with the field and the allowed values, never with the given value. */
export function refuse(name: string, allowed: string): never {
  throw invalidArgument(`${name} must be ${allowed}.`, name)
}

/** A type of channel, for the table in index.ts. */
export interface ChannelType {
  /** Throws `invalid_argument`. */
  create(config: ChannelConfig): Channel
  /** The fields that the store seals. */
  readonly secrets: readonly string[]
}

/** How one provider differs from the others. `Style` has the fields that only this type of channel has. */
export interface Provider<Style> {
  readonly type: string
  readonly robots: RobotRules
  readonly limits: ChannelLimits | ((style: Style) => ChannelLimits)
  /** The names of the fields of the style. */
  readonly fields: readonly string[]
  readStyle(config: ChannelConfig): Style
  /** Fields of the style that the store seals, and the values in them that no reason may show. @default none */
  readonly secretFields?: readonly string[]
  secretValues?(style: Style): readonly string[]
  compose(message: Message, to: Recipient<Style>): readonly OutboundRequest[]
  /** `hide` removes the secrets of the channel from a text of the provider. */
  judge(reply: OutboundReply, hide: (text: string) => string): SendVerdict
}

/** The robot that sends a message, its style, and the store's clock. */
export interface Recipient<Style> {
  readonly robot: Robot
  readonly style: Style
  readonly now: number
}

export function createChannelType<Style>(provider: Provider<Style>): ChannelType {
  const { type, fields, limits, secretFields = [] } = provider
  return {
    // The whole url of a robot is secret, because its path or query holds a key.
    secrets: ['url', 'secret', 'robots', ...secretFields],
    create(config) {
      onlyKeys('channel', config.fields, ['type', 'url', 'secret', 'robots', ...fields])
      const robots = readRobots(config, provider.robots)
      const style = provider.readStyle(config)
      const hide = createHiding(robots, provider.secretValues?.(style))
      return Object.freeze({
        ...identify(type, robots),
        limits: typeof limits === 'function' ? limits(style) : limits,
        compose: (message: Message, robot: Robot, now: number) =>
          provider.compose(message, { robot, style, now }),
        judge: (reply: OutboundReply) => provider.judge(reply, hide),
      })
    },
  }
}

/** Returns the key of a channel, and its text for operators. */
function identify(
  type: string,
  robots: readonly Robot[],
): Pick<Channel, 'type' | 'robots' | 'key' | 'shown'> {
  const key = hash('sha256', JSON.stringify([type, ...robots.map(({ url }) => url)]))
  const hosts = [...new Set(robots.map(({ url }) => new URL(url).host))]
  const where = hosts.length > 3 ? `${hosts.slice(0, 3).join(', ')}…` : hosts.join(', ')
  const count = robots.length === 1 ? '' : ` (${robots.length} robots)`
  // Six digits of the digest distinguish two robots of one provider and reveal nothing.
  return { type, robots, key, shown: `${type} ${where}${count} #${key.slice(0, 6)}` }
}

/** A request with a JSON body. */
export function jsonRequest(url: string, body: string): OutboundRequest {
  return { url, headers: { 'content-type': 'application/json; charset=utf-8' }, body }
}
