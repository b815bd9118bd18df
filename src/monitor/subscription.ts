import type { Duration } from '../core/duration.ts'
import { invalidArgument } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { encodeJson } from '../core/json.ts'
import { duration, flag, oneOf, onlyKeys, show, text, whole } from '../core/options.ts'
import type { SubscriptionChannel } from './channels/index.ts'
import { checkTemplate } from './delivery/compose-message.ts'
import type { NewSubscription, SubscriptionRecord } from './monitor-store.ts'
import type { StoredChannel } from './stored-channels.ts'
import { bothForms, placeKeys } from './subject-forms.ts'

/** How a subscription wants to be notified. */
export interface SubscriptionOptions {
  /**
   * How long the same state is not notified again, from the provider's ack on; 0: no window, and only the same change
   * within `eventDedupTtlMs` is held back. @default notificationIntervalMs
   */
  readonly windowMs?: Duration | undefined
  /** Notify the first state of a subject too. @default false */
  readonly notifyNew?: boolean | undefined
  /** Notify a change that was held back once nothing holds it back, if it is still true and new. @default false */
  readonly reconcile?: boolean | undefined
  /** Gather the changes of each window of this length into one message; 0: one message for each change. @default 0 */
  readonly digestMs?: Duration | undefined
  /** At most `max` notifications within `perMs`; further changes are not notified. @default none */
  readonly throttle?: { readonly max: number; readonly perMs: Duration } | null | undefined
  /** More than `changes` changes of a venue within `withinMs` are notified as one: it is flapping. @default none */
  readonly flap?: { readonly changes: number; readonly withinMs: Duration } | null | undefined
  /** The line of a message, with placeholders such as {venueId}. @default a line with the subject and both states */
  readonly template?: string | null | undefined
  /** `resend` a message that may have arrived, marked as a repeat, or `hold` it for an operator. @default 'resend' */
  readonly onAmbiguous?: 'resend' | 'hold' | undefined
  /** The number of further tries. @default 3 */
  readonly maxRetries?: number | undefined
  /** The pause after a failure. @default 5_000 */
  readonly retryInMs?: Duration | undefined
}

/** A subscription: its subjects, its channel, and how to notify. */
export interface SubscribeOptions extends SubscriptionOptions {
  readonly name: string
  /** Which subjects; an omitted field matches everything. @default all */
  readonly match?: SubjectMatch | undefined
  /** Such as `{ type: 'dingtalk', url, secret }`; the fields depend on the type. */
  readonly channel: SubscriptionChannel
}

export interface ResolvedSubscriptionOptions {
  readonly windowMs: number
  readonly notifyNew: boolean
  readonly reconcile: boolean
  readonly digestMs: number
  readonly throttle: { readonly max: number; readonly perMs: number } | null
  readonly flap: { readonly changes: number; readonly withinMs: number } | null
  readonly template: string | null
  readonly onAmbiguous: 'resend' | 'hold'
  readonly maxRetries: number
  readonly retryInMs: number
}

/** A subscription without secrets. */
export interface Subscription extends ResolvedSubscriptionOptions {
  readonly id: string
  readonly name: string
  readonly match: SubjectMatch
  readonly channel: {
    readonly type: string
    readonly shown: string
    /** How the store keeps its secrets. `unreadable`: this process lacks the key, so the notifications wait. */
    readonly secrets: 'plain' | 'sealed' | 'unreadable'
  }
  readonly createdAt: number
}

/** The defaults, except `windowMs`, which the monitor's options set. */
export const subscriptionDefaults: Omit<ResolvedSubscriptionOptions, 'windowMs'> = {
  notifyNew: false,
  reconcile: false,
  digestMs: 0,
  throttle: null,
  flap: null,
  template: null,
  onAmbiguous: 'resend',
  maxRetries: 3,
  retryInMs: 5_000,
}

const day = 86_400_000
const optionKeys = ['windowMs', ...Object.keys(subscriptionDefaults)]

/**
 * The record to store, with every option filled in and `channel` in plain text. `checkChannel` throws if the channel
 * cannot be used.
 */
export function resolveSubscription(
  options: SubscribeOptions,
  windowMs: number,
  checkChannel: (config: unknown) => unknown,
): NewSubscription {
  onlyKeys('subscribe', options, ['name', 'match', 'channel', ...optionKeys])
  const name = text('subscribe.name', options.name)
  const match = resolveMatch('subscribe.match', options.match ?? {})
  checkChannel(options.channel)
  return {
    id: createId(),
    name,
    match: JSON.stringify(match),
    channel: encodeJson('subscribe.channel', options.channel),
    options: JSON.stringify(resolveOptions(options, windowMs)),
  }
}

function resolveOptions(options: SubscriptionOptions, interval: number): ResolvedSubscriptionOptions {
  const { windowMs = interval, template } = options
  const given = { ...subscriptionDefaults, ...withoutUndefined(options) }
  const span = (key: string, value: unknown, max: number) => duration(`subscribe.${key}`, value, { max })
  return {
    windowMs: span('windowMs', windowMs, 365 * day),
    notifyNew: flag('subscribe.notifyNew', given.notifyNew),
    reconcile: flag('subscribe.reconcile', given.reconcile),
    digestMs: span('digestMs', given.digestMs, day),
    throttle: given.throttle === null ? null : resolveThrottle(given.throttle),
    flap: given.flap === null ? null : resolveFlap(given.flap),
    template:
      template === undefined || template === null ? null : checkTemplate('subscribe.template', template),
    onAmbiguous: oneOf('subscribe.onAmbiguous', given.onAmbiguous, ['resend', 'hold']),
    maxRetries: whole('subscribe.maxRetries', given.maxRetries, { max: 100 }),
    retryInMs: span('retryInMs', given.retryInMs, day),
  }
}

function resolveThrottle(throttle: unknown): ResolvedSubscriptionOptions['throttle'] {
  onlyKeys('subscribe.throttle', throttle, ['max', 'perMs'])
  const { max, perMs } = throttle as { max?: unknown; perMs?: unknown }
  return {
    max: whole('subscribe.throttle.max', max, { min: 1, max: 1_000_000 }),
    perMs: duration('subscribe.throttle.perMs', perMs, { min: 1, max: 31 * day }),
  }
}

function resolveFlap(flap: unknown): ResolvedSubscriptionOptions['flap'] {
  onlyKeys('subscribe.flap', flap, ['changes', 'withinMs'])
  const { changes, withinMs } = flap as { changes?: unknown; withinMs?: unknown }
  return {
    // The monitor remembers a hundred changes, and must remember one more than this limit.
    changes: whole('subscribe.flap.changes', changes, { min: 1, max: 99 }),
    withinMs: duration('subscribe.flap.withinMs', withinMs, { min: 1, max: 31 * day }),
  }
}

function withoutUndefined<Options extends object>(
  options: Options,
): { [Key in keyof Options]: Exclude<Options[Key], undefined> } {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as { [Key in keyof Options]: Exclude<Options[Key], undefined> }
}

/** `defaults` apply to options that the record does not have. Unreadable options count as omitted. */
export function decodeSubscriptionOptions(
  { options }: SubscriptionRecord,
  defaults: Partial<ResolvedSubscriptionOptions> = {},
): ResolvedSubscriptionOptions {
  const whole = { ...subscriptionDefaults, windowMs: 300_000, ...defaults }
  try {
    return { ...whole, ...JSON.parse(options) }
  } catch {
    return whole
  }
}

/** Decodes a subscription for operators, without secrets. */
export function decodeSubscription(
  record: SubscriptionRecord,
  { type, shown, secrets }: StoredChannel,
): Subscription {
  const { id, name, createdAt } = record
  return {
    id,
    name,
    match: JSON.parse(record.match),
    channel: { type, shown, secrets },
    ...decodeSubscriptionOptions(record),
    createdAt,
  }
}

/** Matches one text, one of several, or all texts with a prefix. */
export type TextMatch = string | readonly string[] | { readonly prefix: string }

/** Matches subjects; an omitted field matches everything. */
export interface SubjectMatch {
  readonly source?: TextMatch | undefined
  /** For subjects of the general form. Not together with `timeSlot` or `venueId`. */
  readonly subject?: TextMatch | undefined
  readonly timeSlot?: TextMatch | undefined
  readonly venueId?: TextMatch | undefined
}

/** The compiled form of a match. */
export interface Matcher {
  /** Whether any subject of this source and group can match. */
  isNear(source: string, group: string): boolean
  isName(name: string): boolean
}

const fields = placeKeys
const maxListed = 1_000

/** Checks a match and returns its stored form. */
export function resolveMatch(name: string, match: unknown): SubjectMatch {
  onlyKeys(name, match, fields)
  const given = match as SubjectMatch
  if (given.subject !== undefined && (given.timeSlot !== undefined || given.venueId !== undefined))
    throw bothForms(name)
  const whole: { -readonly [Key in keyof SubjectMatch]: SubjectMatch[Key] } = {}
  for (const field of fields)
    if (given[field] !== undefined) whole[field] = resolveText(`${name}.${field}`, given[field])
  return whole
}

function resolveText(name: string, value: unknown): TextMatch {
  if (typeof value === 'string') return text(name, value)
  if (Array.isArray(value) && value.length >= 1 && value.length <= maxListed)
    return value.map((item, index) => text(`${name}[${index}]`, item))
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    onlyKeys(name, value, ['prefix'])
    return { prefix: text(`${name}.prefix`, (value as { prefix?: unknown }).prefix) }
  }
  throw invalidArgument(
    `${name} must be text, a list of 1 to ${maxListed} texts or { prefix }, not ${show(value)}.`,
    name,
  )
}

export function createMatcher({ source, subject, timeSlot, venueId }: SubjectMatch): Matcher {
  const isSource = createTest(source)
  const isGroup = createGroupTest(subject, timeSlot, venueId)
  return {
    isNear: (theirs, group) => isSource(theirs) && isGroup(group),
    isName: createTest(subject ?? venueId),
  }
}

/** Subjects of the general form have an empty group; venues never have. */
function createGroupTest(
  subject: TextMatch | undefined,
  timeSlot: TextMatch | undefined,
  venueId: TextMatch | undefined,
): (group: string) => boolean {
  if (subject !== undefined) return (group) => group === ''
  if (timeSlot !== undefined) return createTest(timeSlot)
  return venueId === undefined ? () => true : (group) => group !== ''
}

function createTest(match: TextMatch | undefined): (value: string) => boolean {
  if (match === undefined) return () => true
  if (typeof match === 'string') return (value) => value === match
  if ('prefix' in match) return (value) => value.startsWith(match.prefix)
  const listed = new Set(match)
  return (value) => listed.has(value)
}
