import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import type { MonitorStore } from '../monitor-store.ts'
import type { UnreadableChannel } from '../shown-records.ts'
import type { StoredChannels } from './stored-channels.ts'

/** What became of the channels of a namespace's subscriptions. */
export interface ResealAnswer {
  /** Sealed now with the first key: they were in plain, or sealed with another key. */
  readonly resealed: number
  /** They were sealed with the first key before. */
  readonly current: number
  /** No key here opens them; they were left as they are. */
  readonly unreadable: readonly UnreadableChannel[]
}

/** A subscription may be replaced while it is resealed; it is read again then. */
const maxRounds = 5

/** Seals every channel with the first key. Running it twice, or in two processes, does no harm. */
export async function resealChannels(store: MonitorStore, channels: StoredChannels): Promise<ResealAnswer> {
  if (!channels.hasKey) {
    throw invalidArgument(
      'There is no key to seal with. Set SIGNALBOX_SECRET_KEY or SIGNALBOX_SECRET_KEY_FILE, or give `secretKey` to open.',
      'secretKey',
    )
  }
  const resealed = new Set<string>()
  for (let round = 1; ; round++) {
    const { subscriptions } = await store.rules()
    const unreadable: UnreadableChannel[] = []
    let overtaken = 0
    let current = 0
    for (const record of subscriptions) {
      const { plain, problem } = channels.decode(record)
      const { id, name, channel } = record
      if (plain === undefined) {
        const { code, message } = problem!
        unreadable.push({ subscriptionId: id, subscription: name, code, message })
      } else if (channels.isCurrent(record)) current += resealed.has(id) ? 0 : 1
      else if (await store.rewriteChannel(id, channel, channels.encode(id, plain))) resealed.add(id)
      else overtaken++
    }
    if (overtaken === 0) return { resealed: resealed.size, current, unreadable }
    if (round === maxRounds)
      throw new SignalboxError(
        'conflict',
        `${overtaken} subscriptions changed while they were resealed. Run it again.`,
      )
  }
}
