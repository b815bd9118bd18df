/**
 * Plans which notifications are sent alone and which share a message. Pure.
 *
 * While the limit allows more than one message, each notification is sent alone. If it allows only one more, all the
 * rest share that message. So a burst is sent completely, and late by at most one window of the provider. Only
 * notifications with the same configuration share a message: mentions, keywords and secrets are not mixed.
 *
 * A subscription with `digestMs` gets one message at the end of each window of that length. If a shared message fails,
 * it is sent again with the same notifications. If the provider refuses it, each notification is sent alone.
 */
export interface Candidate {
  /** Ids sort by time. */
  readonly id: string
  /** The configuration of its channel. */
  readonly group: string
  readonly digestMs: number | null
  readonly createdAt: number
  readonly attempt: number
  /** The message that it shared at the last try. */
  readonly digestId: string | null
  /** It must not share a message. */
  readonly alone: boolean
}

export interface Plan<Item extends Candidate> {
  /** The items of each message, in the order of sending. */
  readonly messages: readonly (readonly Item[])[]
  /** Items whose window has not ended. */
  readonly later: readonly { readonly item: Item; readonly at: number }[]
}

/** Every item is in one message, or in `later`, or stays due because the limit is reached. */
export function planMessages<Item extends Candidate>(
  items: readonly Item[],
  free: number,
  now: number,
): Plan<Item> {
  const later: { item: Item; at: number }[] = []
  const units = new Map<string, Item[]>()
  for (const item of items) {
    const at = item.attempt === 0 && !item.alone && item.digestMs !== null ? windowEnd(item) : 0
    if (at > now) {
      later.push({ item, at })
      continue
    }
    const unit = unitOf(item)
    const known = units.get(unit)
    if (known === undefined) units.set(unit, [item])
    else known.push(item)
  }
  return { messages: squeeze([...units.values()], free), later }
}

/** The end of the window of its creation. Windows count from the epoch, so that all senders agree. */
function windowEnd({ createdAt, digestMs }: Pick<Candidate, 'createdAt' | 'digestMs'>): number {
  return digestMs === null ? createdAt : (Math.floor(createdAt / digestMs) + 1) * digestMs
}

/** Items with the same key share a message, even if the limit allows more. */
function unitOf({ id, group, digestMs, digestId, attempt, alone }: Candidate): string {
  if (alone) return `alone ${id}`
  if (digestId !== null && attempt > 0) return `again ${digestId} ${group}`
  return digestMs === null ? `single ${id}` : `window ${digestMs} ${group}`
}

function squeeze<Item extends Candidate>(
  units: readonly Item[][],
  free: number,
): readonly (readonly Item[])[] {
  const messages: Item[][] = []
  for (let next = 0; next < units.length; next++) {
    const left = free - messages.length
    const rest = units.slice(next)
    if (rest.length <= left) return [...messages, ...rest]
    const shared = share(rest)
    if (left <= shared.length) return [...messages, ...shared.slice(0, Math.max(0, left))]
    messages.push(units[next]!)
  }
  return messages
}

/** Merges the units into as few messages as possible. */
function share<Item extends Candidate>(units: readonly Item[][]): Item[][] {
  const shared = new Map<string, Item[]>()
  for (const unit of units) {
    const [first] = unit
    const key = first!.alone ? `alone ${first!.id}` : `group ${first!.group}`
    shared.set(key, [...(shared.get(key) ?? []), ...unit])
  }
  return [...shared.values()]
}
