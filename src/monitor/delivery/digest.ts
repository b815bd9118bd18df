/**
 * Which notifications go one by one and which share a message. Pure.
 *
 * While more than one message may go, they go one by one; when a single one is left and more than one is
 * due, all the rest share it. So a burst is sent in full, and late by no more than one window of the provider's.
 * Only those that go by the same configuration share: mentions, keywords and secrets are not mixed.
 *
 * A subscription with `digestMs` is notified at the ends of windows of that length, one message each. A message that was
 * shared and failed is tried again as it was; one that the provider refused as a whole is tried one by one.
 */
export interface Candidate {
  /** Ids sort by time. */
  readonly id: string
  /** The configuration it goes by. */
  readonly group: string
  readonly digestMs: number | null
  readonly createdAt: number
  readonly attempt: number
  /** The message it shared last time. */
  readonly digestId: string | null
  /** It must not share. */
  readonly alone: boolean
}

export interface Plan<Item extends Candidate> {
  /** Each a message, in the order in which they are to begin. */
  readonly messages: readonly (readonly Item[])[]
  /** Their window has not ended. */
  readonly later: readonly { readonly item: Item; readonly at: number }[]
}

/** Every item is in one message at most, or in `later`, or stays due because the limit is reached. */
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

/** The end of the window it was made in; windows are counted from the epoch, so that all senders agree. */
function windowEnd({ createdAt, digestMs }: Pick<Candidate, 'createdAt' | 'digestMs'>): number {
  return digestMs === null ? createdAt : (Math.floor(createdAt / digestMs) + 1) * digestMs
}

/** What belongs into one message even if more may go. */
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

/** As few messages as can carry all of it. */
function share<Item extends Candidate>(units: readonly Item[][]): Item[][] {
  const shared = new Map<string, Item[]>()
  for (const unit of units) {
    const [first] = unit
    const key = first!.alone ? `alone ${first!.id}` : `group ${first!.group}`
    shared.set(key, [...(shared.get(key) ?? []), ...unit])
  }
  return [...shared.values()]
}
