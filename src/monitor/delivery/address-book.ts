import type { MonitorStore, SubscriptionRecord } from '../monitor-store.ts'
import type { StoredChannel, StoredChannels } from '../secrets/stored-channels.ts'

/** What sending needs to know of a subscription. */
export interface Addressee {
  readonly subscriptionId: string
  /** The subscription's name. */
  readonly name: string
  readonly stored: StoredChannel
  /** The whole channel: what shares a message shares all of it. */
  readonly group: string
  readonly template: string | null
  readonly digestMs: number | null
  readonly retryMs: number | null
  readonly onAmbiguous: 'resend' | 'hold'
}

/**
 * Who is to be notified, as of now: read again after a while, and whenever somebody unknown is asked for, so that a
 * subscription is only taken for gone when the store says so.
 */
export class AddressBook {
  readonly #store: Pick<MonitorStore, 'rules'>
  readonly #channels: StoredChannels
  readonly #maxAgeMs: number
  #entries = new Map<string, { readonly record: SubscriptionRecord; readonly addressee: Addressee }>()
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(
    store: Pick<MonitorStore, 'rules'>,
    channels: StoredChannels,
    { maxAgeMs = 1_000 }: { readonly maxAgeMs?: number } = {},
  ) {
    this.#store = store
    this.#channels = channels
    this.#maxAgeMs = maxAgeMs
  }

  /** Those of these that are subscribed. */
  async find(subscriptionIds: readonly string[]): Promise<ReadonlyMap<string, Addressee>> {
    if (performance.now() - this.#readAt > this.#maxAgeMs) await this.#readOnce()
    // Not the read that may be under way: it may have begun before the one asked for subscribed.
    if (subscriptionIds.some((id) => !this.#entries.has(id))) await this.#read()
    const found = new Map<string, Addressee>()
    for (const id of subscriptionIds) {
      const entry = this.#entries.get(id)
      if (entry !== undefined) found.set(id, entry.addressee)
    }
    return found
  }

  #readOnce(): Promise<void> {
    this.#reading ??= this.#read()
    return this.#reading
  }

  async #read(): Promise<void> {
    try {
      const readAt = performance.now()
      const { subscriptions } = await this.#store.rules()
      // A slow answer must not take the place of a later one.
      if (readAt < this.#readAt) return
      const before = this.#entries
      this.#entries = new Map(
        subscriptions.map((record) => {
          const known = before.get(record.id)
          const isSame = known?.record.channel === record.channel && known.record.options === record.options
          return [record.id, isSame ? known : { record, addressee: this.#open(record) }]
        }),
      )
      this.#readAt = readAt
    } finally {
      this.#reading = undefined
    }
  }

  #open(record: SubscriptionRecord): Addressee {
    const chosen = decodeOptions(record.options)
    const stored = this.#channels.decode(record)
    return {
      subscriptionId: record.id,
      name: record.name,
      stored,
      group: stored.plain ?? record.channel,
      template: typeof chosen.template === 'string' ? chosen.template : null,
      digestMs: span(chosen.digestMs),
      retryMs: span(chosen.retryInMs),
      onAmbiguous: chosen.onAmbiguous === 'hold' ? 'hold' : 'resend',
    }
  }
}

function decodeOptions(options: string): Readonly<Record<string, unknown>> {
  try {
    const decoded: unknown = JSON.parse(options)
    return typeof decoded === 'object' && decoded !== null ? { ...decoded } : {}
  } catch {
    return {}
  }
}

function span(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : null
}
