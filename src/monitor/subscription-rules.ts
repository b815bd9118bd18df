import { createMatcher, type Matcher } from './match.ts'
import type { MonitorStore, SilenceRecord, SubscriptionRecord } from './monitor-store.ts'
import type { Listener } from './report/decide.ts'
import type { StoredChannel, StoredChannels } from './secrets/stored-channels.ts'
import { decodeSubscriptionOptions, type ResolvedSubscriptionOptions } from './subscription.ts'

/** A subscription, ready to be asked. */
export interface Subscriber extends Listener {
  readonly name: string
  readonly matcher: Matcher
  readonly options: ResolvedSubscriptionOptions
  readonly record: SubscriptionRecord
  readonly stored: StoredChannel
}

/** All subscriptions and silences, as of one revision. */
export interface RuleBook {
  readonly revision: number
  readonly subscribers: readonly Subscriber[]
  readonly silences: readonly (SilenceRecord & { readonly matcher: Matcher })[]
}

/**
 * The rules as this process knows them. They are read once and kept for a minute; a report reads the revision with
 * everything else it reads, so a change of rules, by whomever, is noticed by the very next report.
 */
export interface RuleCache {
  book(): Promise<RuleBook>
  /** These rules are not the present ones. */
  drop(): void
}

const keptMs = 60_000

export function createRuleCache(store: Pick<MonitorStore, 'rules'>, channels: StoredChannels): RuleCache {
  let kept: { readonly book: Promise<RuleBook>; readonly readAt: number } | undefined

  async function read(): Promise<RuleBook> {
    const { revision, subscriptions, silences } = await store.rules()
    return {
      revision,
      subscribers: subscriptions.map((record) => createSubscriber(record, channels)),
      silences: silences.map((record) => ({ ...record, matcher: createMatcher(JSON.parse(record.match)) })),
    }
  }

  return {
    book() {
      if (kept && performance.now() - kept.readAt < keptMs) return kept.book
      const reading = { book: read(), readAt: performance.now() }
      kept = reading
      reading.book.catch(() => {
        // A failure is nothing to keep; its callers get the error.
        if (kept === reading) kept = undefined
      })
      return reading.book
    },
    drop() {
      kept = undefined
    },
  }
}

function createSubscriber(record: SubscriptionRecord, channels: StoredChannels): Subscriber {
  const options = decodeSubscriptionOptions(record)
  const { id, name } = record
  const { windowMs, notifyNew, reconcile, throttle, flap } = options
  return {
    id,
    name,
    windowMs,
    notifyNew,
    reconcile,
    throttle,
    flap,
    matcher: createMatcher(JSON.parse(record.match)),
    options,
    record,
    stored: channels.decode(record),
  }
}
