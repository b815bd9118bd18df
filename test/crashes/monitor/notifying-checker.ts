/**
 * Decides from what reporters were answered, what the provider took and what the store holds at the end whether people
 * were notified what they should have been. A pure function: every complaint names the promise and the venue.
 *
 * - Order: of one venue, one subscription hears in the order in which it was decided.
 * - Repeats: what the provider had taken before comes again only marked as a possible repeat.
 * - Nothing lost: what is `sent` was taken; and a subscription that hears `everything` hears an unbroken chain from the
 *   first state to the truth, with every change in it that a reporter was answered for.
 * - Windows (D1): the same state of a venue is acked once within its window. At the end a subscription has heard the
 *   truth last, or the truth was within its window when it came back; one that reconciles has heard it last.
 */
export interface NotifyingEvidence {
  readonly rules: readonly NotifyingRule[]
  /** What the provider took, in the order in which it did; a repeat is there again. */
  readonly taken: readonly TakenMessage[]
  /** All notifications of the store, at the end. */
  readonly notifications: readonly SentNotification[]
  /** Changes that a reporter was answered for as notified. */
  readonly reported: readonly Change[]
  readonly venues: readonly VenueEnd[]
}

export interface NotifyingRule {
  readonly subscriptionId: string
  readonly source: string
  readonly windowMs: number
  /** `everything`: no window, from the first state on. `lastly`: what was held back is notified in the end. */
  readonly hears: 'everything' | 'by window' | 'lastly'
}

export interface Change {
  readonly source: string
  readonly venueId: string
  readonly from: string | null
  readonly to: string
}

export interface TakenMessage {
  /** It said of itself that it may be a repeat. */
  readonly marked: boolean
  readonly changes: readonly (Change & { readonly notificationId: string })[]
}

export interface SentNotification extends Change {
  /** Rises with every notification of a venue. */
  readonly id: string
  readonly subscriptionId: string
  readonly status: string
  readonly possibleRepeat: boolean
  readonly createdAt: number
  readonly finishedAt: number | null
}

export interface VenueEnd {
  readonly source: string
  readonly venueId: string
  /** The state before any notification. */
  readonly baseline: string | null
  readonly truth: string
  readonly changedAt: number
}

export interface NotifyingVerdict {
  readonly complaints: readonly string[]
  readonly counts: Readonly<Record<'messages' | 'changes' | 'repeats' | 'dead' | 'resent', number>>
}

export function checkNotifying(evidence: NotifyingEvidence): NotifyingVerdict {
  const { rules, taken, notifications, venues } = evidence
  const complaints: string[] = []
  const byId = new Map(notifications.map((one) => [one.id, one]))
  const firstTaken = new Map<string, Change>()
  let repeats = 0
  for (const { marked, changes } of taken) {
    for (const { notificationId, ...change } of changes) {
      const record = byId.get(notificationId)
      const name = `${notificationId} of ${change.venueId}`
      if (record === undefined) complaints.push(`${name} was taken, and the store has no such notification`)
      else if (!isSame(record, change))
        complaints.push(`${name} was taken with other words than were decided`)
      if (!firstTaken.has(notificationId)) {
        firstTaken.set(notificationId, change)
        continue
      }
      repeats++
      if (!marked) complaints.push(`repeats: ${name} came again and did not say so`)
      if (record && !record.possibleRepeat)
        complaints.push(`repeats: ${name} came again, unknown to the store`)
    }
  }
  for (const { id, venueId, status } of notifications) {
    if (status === 'sent' && !firstTaken.has(id))
      complaints.push(`lost: ${id} of ${venueId} is sent, but no receiver got it`)
    if (status === 'pending' || status === 'sending')
      complaints.push(`${id} of ${venueId} is still ${status} at the end`)
  }
  const order = new Map([...firstTaken.keys()].map((id, at) => [id, at]))
  const ofPlace = Map.groupBy(notifications, (one) => placeOf(one.subscriptionId, one))
  for (const notified of ofPlace.values()) complaints.push(...checkOrder(notified, order))
  for (const rule of rules) {
    for (const venue of venues.filter(({ source }) => source === rule.source)) {
      const notified = inOrder(ofPlace.get(placeOf(rule.subscriptionId, venue)) ?? [])
      if (rule.hears === 'everything') complaints.push(...checkChain(venue, notified, order, evidence))
      else complaints.push(...checkWindows(rule, venue, notified))
    }
  }
  const dead = notifications.filter(({ status }) => status === 'dead').length
  const counts = {
    messages: taken.length,
    changes: firstTaken.size,
    repeats,
    dead,
    resent: countResent(ofPlace),
  }
  return { complaints, counts }
}

function placeOf(subscriptionId: string, { source, venueId }: Pick<Change, 'source' | 'venueId'>): string {
  return JSON.stringify([subscriptionId, source, venueId])
}

function inOrder(notified: readonly SentNotification[]): readonly SentNotification[] {
  return notified.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

function isSame(a: Change, b: Change): boolean {
  return a.source === b.source && a.venueId === b.venueId && a.from === b.from && a.to === b.to
}

function checkOrder(notified: readonly SentNotification[], order: ReadonlyMap<string, number>): string[] {
  const heard = inOrder(notified).filter(({ id }) => order.has(id))
  return heard.flatMap((one, index) => {
    const before = heard[index - 1]
    if (before === undefined || order.get(before.id)! < order.get(one.id)!) return []
    return [`order: of ${one.venueId}, ${one.id} was heard before ${before.id}`]
  })
}

function checkChain(
  { source, venueId, baseline, truth }: VenueEnd,
  notified: readonly SentNotification[],
  order: ReadonlyMap<string, number>,
  { reported }: NotifyingEvidence,
): string[] {
  const complaints: string[] = []
  const heard = notified.filter(({ id }) => order.has(id)).sort((a, b) => order.get(a.id)! - order.get(b.id)!)
  let last = baseline
  for (const { id, from, to } of heard) {
    if (from !== last) complaints.push(`lost: ${venueId} was ${last} when ${id} notified of ${from} → ${to}`)
    last = to
  }
  if (last !== truth) complaints.push(`end: ${venueId} was heard to be ${last} and is ${truth}`)
  const steps = new Set(heard.map(({ from, to }) => JSON.stringify([from, to])))
  for (const change of reported) {
    if (change.source !== source || change.venueId !== venueId) continue
    if (!steps.has(JSON.stringify([change.from, change.to])))
      complaints.push(`lost: ${venueId} ${change.from} → ${change.to} was answered for and never heard`)
  }
  return complaints
}

function checkWindows(
  { windowMs, hears }: NotifyingRule,
  { venueId, baseline, truth, changedAt }: VenueEnd,
  notified: readonly SentNotification[],
): string[] {
  const complaints: string[] = []
  const heard = notified.filter(({ status }) => status === 'sent')
  for (const [state, same] of Map.groupBy(heard, ({ to }) => to)) {
    for (const [index, one] of same.entries()) {
      const before = same[index - 1]
      if (before && one.createdAt < before.finishedAt! + windowMs)
        complaints.push(
          `D1: ${venueId} ${state} was notified as ${before.id} and within its window as ${one.id}`,
        )
    }
  }
  const last = heard.at(-1)?.to ?? baseline
  const wasInWindow = heard.some(({ to, finishedAt }) => to === truth && finishedAt! + windowMs > changedAt)
  if (last !== truth && !(hears === 'by window' && wasInWindow))
    complaints.push(`end: ${venueId} is ${truth}, was heard to be ${last}, and no window held that back`)
  return complaints
}

/** How often a state was notified after a message about it had died. */
function countResent(ofPlace: ReadonlyMap<string, readonly SentNotification[]>): number {
  let count = 0
  for (const notified of ofPlace.values()) {
    const owed = new Set<string>()
    for (const { to, status } of inOrder(notified)) {
      if (status === 'dead') owed.add(to)
      else if (status === 'sent' && owed.delete(to)) count++
    }
  }
  return count
}
