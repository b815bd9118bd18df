import type { Duration } from '../core/duration.ts'
import { createId } from '../core/ids.ts'
import { duration, onlyKeys, text, whole } from '../core/options.ts'
import type { MonitorStore, NewSilence, SilenceRecord, SubscriptionRecord } from './monitor-store.ts'
import type { StoredChannel, StoredChannels } from './stored-channels.ts'
import {
  createMatcher,
  decodeSubscriptionOptions,
  type Matcher,
  type ResolvedSubscriptionOptions,
  resolveMatch,
  type SubjectMatch,
} from './subscription.ts'

/** A subscription with its options, its matcher and its channel decoded. */
export interface Subscriber extends ResolvedSubscriptionOptions {
  readonly id: string
  readonly name: string
  readonly matcher: Matcher
  readonly record: SubscriptionRecord
  readonly stored: StoredChannel
}

/** All subscriptions and silences at one revision. */
export interface RuleBook {
  readonly revision: number
  /** By id, oldest first. */
  readonly subscribers: ReadonlyMap<string, Subscriber>
  readonly silences: readonly (SilenceRecord & { readonly matcher: Matcher })[]
}

/**
 * A cache of the rules, which it reads at most once a minute. A report reads the revision with the subjects, so it
 * notices a change of the rules.
 */
export interface RuleCache {
  /** The rules, at most `maxAgeMs` old. @default 60_000 */
  book(maxAgeMs?: number): Promise<RuleBook>
  /** Forgets the rules, because they changed. */
  drop(): void
}

/** `defaults` apply to options that a subscription does not set. */
export function createRuleCache(
  store: Pick<MonitorStore, 'rules'>,
  channels: StoredChannels,
  defaults: Partial<ResolvedSubscriptionOptions> = {},
): RuleCache {
  let kept: { readonly book: Promise<RuleBook>; readonly readAt: number } | undefined
  let decoded: ReadonlyMap<string, Subscriber> = new Map()

  async function read(): Promise<RuleBook> {
    const { revision, subscriptions, silences } = await store.rules()
    const subscribers = new Map(subscriptions.map((record) => [record.id, decode(record)]))
    decoded = subscribers
    const matched = silences.map((record) => ({
      ...record,
      matcher: createMatcher(JSON.parse(record.match)),
    }))
    return { revision, subscribers, silences: matched }
  }

  function decode(record: SubscriptionRecord): Subscriber {
    const known = decoded.get(record.id)
    // A sender reads the rules every second: opening sealed channels each time would cost more than sending.
    if (known?.record.channel === record.channel && known.record.options === record.options) return known
    return {
      ...decodeSubscriptionOptions(record, defaults),
      ...{ id: record.id, name: record.name, record, stored: channels.decode(record) },
      matcher: createMatcher(JSON.parse(record.match)),
    }
  }

  return {
    book(maxAgeMs = 60_000) {
      if (kept && performance.now() - kept.readAt < maxAgeMs) return kept.book
      const reading = { book: read(), readAt: performance.now() }
      kept = reading
      reading.book.catch(() => {
        // Do not cache a failure; the present callers get the error.
        if (kept === reading) kept = undefined
      })
      return reading.book
    },
    drop() {
      kept = undefined
    },
  }
}

/** A silence: subjects that are not notified for a while. */
export interface SilenceOptions {
  /** Which subjects; an omitted field matches everything. @default all */
  readonly match?: SubjectMatch | undefined
  readonly forMs: Duration
  /** An instant (epoch milliseconds, or a Date). @default now */
  readonly startsAt?: number | Date | undefined
  /** The reason, for operators. @default none */
  readonly comment?: string | undefined
}

export interface Silence extends Omit<SilenceRecord, 'match'> {
  readonly match: SubjectMatch
}

const year = 31_536_000_000

export function resolveSilence(options: SilenceOptions): NewSilence {
  onlyKeys('silence', options, ['match', 'forMs', 'startsAt', 'comment'])
  const { match = {}, forMs, startsAt, comment = '' } = options
  const instant = startsAt instanceof Date ? startsAt.getTime() : startsAt
  return {
    id: createId(),
    match: JSON.stringify(resolveMatch('silence.match', match)),
    comment: comment === '' ? '' : text('silence.comment', comment),
    startsAt:
      instant === undefined
        ? null
        : whole('silence.startsAt', instant, { max: 8_640_000_000_000_000 - year }),
    forMs: duration('silence.forMs', forMs, { min: 1, max: year }),
  }
}

export function decodeSilence({ match, ...silence }: SilenceRecord): Silence {
  return { ...silence, match: JSON.parse(match) }
}
