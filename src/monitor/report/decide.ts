import type { KnownSubject, WindowRecord } from '../monitor-store.ts'
import type { ResolvedSubscriptionOptions } from '../subscription.ts'

/**
 * Decides whether a state is notified, to which subscriptions, and why not. Pure, so that every case is a row of a
 * table.
 *
 *     not known ──▶ new            the baseline: notified only to subscriptions with `notifyNew`
 *     same state ─▶ unchanged      unless a message about it died: then it is owed, and decided again
 *     older ──────▶ stale          recorded; the newer state stays
 *     otherwise ──▶ changed        notified to each subscription, unless for this subscription it is
 *                                  silenced, flapping, pending, notified_recently, throttled,
 *                                  or for all: no_subscriber, duplicate_event
 *
 * Each subject, state and subscription has a window: `[notified, notified + windowMs)`. It is reserved (`pending`)
 * until the message is sent, and a repeat does not extend it.
 */
export const reasons = [
  'new',
  'changed',
  'unchanged',
  'stale',
  'pending',
  'notified_recently',
  'flapping',
  'throttled',
  'silenced',
  'no_subscriber',
  'duplicate_event',
] as const

export type Reason = (typeof reasons)[number]

/** The options of a matching subscription. */
export type Listener = { readonly id: string } & Pick<
  ResolvedSubscriptionOptions,
  'windowMs' | 'notifyNew' | 'reconcile' | 'throttle' | 'flap'
>

/** All facts of a decision. */
export interface Sighting {
  /** The store's clock. */
  readonly now: number
  readonly observedAt: number
  readonly stateHash: string
  readonly known: Pick<KnownSubject, 'stateHash' | 'observedAt' | 'windows'> | undefined
  /** The stored memory of a known subject. */
  readonly recall: Recall | undefined
  readonly listeners: readonly Listener[]
  /** The end of its last silence; null: it is not silenced. */
  readonly silencedUntil: number | null
  /** Whether its event id is taken. */
  readonly isDuplicate: boolean
  /** The longest time for which an event id is taken. */
  readonly eventKeepMs: number
  /** The recent notifications of throttled subscriptions. */
  readonly counts: ReadonlyMap<string, number>
  /** A job, not a report: it checks whether a change that was held back should be notified now. */
  readonly isReconcile: boolean
}

/** The decision for one subscription. */
export interface Verdict {
  readonly subscriptionId: string
  readonly notified: boolean
  readonly reason: Reason
  readonly kind: 'change' | 'flapping' | 'reconcile'
  /** The notification that has the last notified state, if that is not the previous state. */
  readonly heardBy: { readonly notificationId: string; readonly part: 'from' | 'to' } | null
}

export interface Decision {
  readonly reason: Reason
  /** Whether the subject gets this state. */
  readonly isChange: boolean
  readonly verdicts: readonly Verdict[]
  readonly recall: Recall
  /** When a job must decide again; null: no job is needed, or one exists. */
  readonly lookAgainAt: number | null
}

export function decide(sighting: Sighting): Decision {
  const { known, stateHash, observedAt, isReconcile } = sighting
  if (known === undefined) return decideNew(sighting)
  if (isReconcile || known.stateHash === stateHash) return decideSame(sighting)
  if (observedAt < known.observedAt) return conclude('stale', false, [], sighting, sighting.recall!)
  return decideChange(sighting)
}

function decideNew(sighting: Sighting): Decision {
  const recall: Recall = {
    baseline: sighting.stateHash,
    changes: [],
    flapping: [],
    lookAgainAt: null,
    lastId: '',
  }
  const judged = sighting.listeners.map((listener) =>
    listener.notifyNew
      ? judge(listener, { ...sighting, recall }, recall)
      : { ...notified(listener, 'change'), notified: false, reason: 'new' as const, againAt: null },
  )
  const verdicts = judged.map((verdict) =>
    verdict.notified ? { ...verdict, reason: 'new' as const } : verdict,
  )
  return conclude('new', true, verdicts, sighting, recall)
}

function decideChange(sighting: Sighting): Decision {
  const recall = withChange(sighting)
  const judged = sighting.listeners.map((listener) => judge(listener, sighting, recall))
  if (judged.length === 0) return conclude('no_subscriber', true, [], sighting, recall)
  return conclude(overall(judged), true, judged, sighting, recall)
}

/**
 * Nothing changed. Notifies an owed change, and a change that was held back from a subscription with `reconcile`. A job
 * does this. A report before that job also does it, if nothing holds the change back: a silence may have ended early.
 */
function decideSame(sighting: Sighting): Decision {
  const recall = sighting.recall!
  const { known, stateHash } = sighting
  const isLook = sighting.isReconcile || recall.lookAgainAt !== null
  const judged: Judged[] = []
  for (const listener of sighting.listeners) {
    const windows = known!.windows.filter(({ subscriptionId }) => subscriptionId === listener.id)
    const owed = windows.find((window) => window.stateHash === stateHash && window.status === 'owed')
    const heard = lastHeard(windows)
    const isOwed = owed !== undefined && heard?.stateHash !== stateHash
    const isHeldBack = isLook && listener.reconcile && (heard?.stateHash ?? recall.baseline) !== stateHash
    if (!isOwed && !isHeldBack) continue
    const verdict = judge(listener, sighting, recall)
    const kind = verdict.kind === 'flapping' ? verdict.kind : isOwed ? 'change' : 'reconcile'
    const source = isOwed ? { by: owed, part: 'from' as const } : { by: heard, part: 'to' as const }
    const heardBy = source.by ? { notificationId: source.by.notificationId, part: source.part } : null
    judged.push({ ...verdict, kind, heardBy })
  }
  // A change that is held back again is not recorded again: its reason was recorded when it changed.
  const reason = judged.some((verdict) => verdict.notified) ? 'changed' : 'unchanged'
  return conclude(reason, false, judged, sighting, recall)
}

type Judged = Verdict & {
  /** When to decide again about a change that is held back. */
  readonly againAt: number | null
}

function judge(listener: Listener, sighting: Sighting, recall: Recall): Judged {
  const { now, known, stateHash, silencedUntil, counts } = sighting
  const { id, throttle, flap, windowMs } = listener
  if (silencedUntil !== null) return heldBack(listener, 'silenced', silencedUntil)
  const calmAt = flap === null ? now : calmFrom(recall.changes, flap)
  if (calmAt > now && recall.flapping.includes(id)) return heldBack(listener, 'flapping', calmAt)
  const isThrottled = throttle !== null && (counts.get(id) ?? 0) >= throttle.max
  if (calmAt > now && !isThrottled) return notified(listener, 'flapping')
  const window = known?.windows.find((one) => one.subscriptionId === id && one.stateHash === stateHash)
  // The window begins with the ack, so it lasts at least until then. With `windowMs` 0, a repeat is notified at once.
  if (window?.status === 'pending' && windowMs > 0) return heldBack(listener, 'pending', now + windowMs)
  if (window?.status === 'notified' && window.endsAt !== null && window.endsAt > now)
    return heldBack(listener, 'notified_recently', window.endsAt)
  if (isThrottled) return heldBack(listener, 'throttled', now + throttle.perMs)
  return notified(listener, 'change')
}

function notified({ id }: Listener, kind: Verdict['kind']): Judged {
  return { subscriptionId: id, notified: true, reason: 'changed', kind, heardBy: null, againAt: null }
}

function heldBack({ id }: Listener, reason: Reason, againAt: number): Judged {
  return { subscriptionId: id, notified: false, reason, kind: 'change', heardBy: null, againAt }
}

/** The instant from which the subject is calm: at most `most` changes within `withinMs` before it. */
function calmFrom(
  changes: readonly number[],
  { changes: most, withinMs }: NonNullable<Listener['flap']>,
): number {
  const first = changes.at(-1 - most)
  return first === undefined ? 0 : first + withinMs
}

/** The last window that a subscription is notified of. A pending window comes after all notified ones. */
function lastHeard(windows: readonly WindowRecord[]): WindowRecord | undefined {
  let last: WindowRecord | undefined
  for (const window of windows) {
    if (window.status !== 'pending' && window.notifiedAt === null) continue
    if (last === undefined || rank(window) > rank(last)) last = window
    else if (rank(window) === rank(last) && window.notificationId > last.notificationId) last = window
  }
  return last
}

function rank({ status, notifiedAt }: WindowRecord): number {
  return status === 'pending' ? Number.POSITIVE_INFINITY : notifiedAt!
}

function withChange({ now, recall, listeners }: Sighting): Recall {
  const spans = listeners.map(({ flap }) => flap?.withinMs ?? 0)
  const longest = Math.max(0, ...spans)
  const changes = longest === 0 ? [] : [...recall!.changes.filter((at) => at > now - longest), now]
  return { ...recall!, changes: changes.slice(-maxChanges) }
}

/** Chooses one reason for all subscriptions: `changed` if one is notified, else the most useful explanation. */
function overall(verdicts: readonly Judged[]): Reason {
  if (verdicts.some((verdict) => verdict.notified)) return 'changed'
  const order: readonly Reason[] = ['pending', 'notified_recently', 'flapping', 'throttled', 'silenced']
  return order.find((reason) => verdicts.some((verdict) => verdict.reason === reason))!
}

function conclude(
  reason: Reason,
  isChange: boolean,
  judged: readonly Judged[],
  sighting: Sighting,
  recall: Recall,
): Decision {
  const isDuplicate = sighting.isDuplicate && isChange && judged.some((verdict) => verdict.notified)
  const againAt = sighting.now + sighting.eventKeepMs
  const final = judged.map((verdict) =>
    isDuplicate && verdict.notified
      ? { ...verdict, notified: false, reason: 'duplicate_event' as const, againAt }
      : verdict,
  )
  const verdicts = final.map(({ againAt, ...verdict }) => verdict)
  const look = planLook(sighting, final, recall)
  // Windows are deleted after a while, and with them the last notified state. So the baseline records it.
  const isKnownToAll = verdicts.length > 0 && verdicts.every((verdict) => verdict.notified)
  return {
    reason: isDuplicate ? 'duplicate_event' : reason,
    isChange,
    verdicts,
    recall: {
      ...recall,
      baseline: isKnownToAll ? sighting.stateHash : recall.baseline,
      flapping: notifiedOfFlapping(sighting, verdicts, recall),
      lookAgainAt: look.at,
    },
    lookAgainAt: look.isAdded ? look.at : null,
  }
}

/** The subscriptions that were notified of the flapping, while it continues. */
function notifiedOfFlapping(
  { now, listeners }: Sighting,
  verdicts: readonly Verdict[],
  recall: Recall,
): readonly string[] {
  const isNotified = ({ id }: Listener) =>
    recall.flapping.includes(id) ||
    verdicts.some(
      ({ subscriptionId, notified, kind }) => subscriptionId === id && notified && kind === 'flapping',
    )
  return listeners
    .filter(({ flap }) => flap !== null && calmFrom(recall.changes, flap) > now)
    .filter(isNotified)
    .map(({ id }) => id)
}

/** Plans the next job that decides again. Only the earliest job is added, because it plans the next one itself. */
function planLook(
  { now, listeners }: Sighting,
  judged: readonly Judged[],
  { lookAgainAt }: Recall,
): { readonly at: number | null; readonly isAdded: boolean } {
  const planned = lookAgainAt !== null && lookAgainAt > now ? lookAgainAt : null
  const wanted = judged.flatMap(({ subscriptionId, againAt }) => {
    const isWanted = listeners.some(({ id, reconcile }) => id === subscriptionId && reconcile)
    return isWanted && againAt !== null ? [againAt] : []
  })
  if (wanted.length === 0) return { at: planned, isAdded: false }
  const at = Math.min(...wanted)
  return planned !== null && planned <= at ? { at: planned, isAdded: false } : { at, isAdded: true }
}

/**
 * The memory of a subject besides its state, as JSON in its row. It is written with the state and under the same
 * condition, so two processes that decide at the same time cannot write different memories.
 */
export interface Recall {
  /**
   * The hash of the state that counts as last notified for a subscription without a window: the first known state,
   * later the last state that all subscriptions were notified of.
   */
  readonly baseline: string
  /** The recent changes by the store's clock, oldest first; only if a subscription watches for flapping. */
  readonly changes: readonly number[]
  /** Subscriptions that were notified of the flapping and get no more until the subject is calm. */
  readonly flapping: readonly string[]
  /** When a job decides again; null: no job exists. */
  readonly lookAgainAt: number | null
  /** The last id of a decision or notification about the subject; empty: none. */
  readonly lastId: string
}

/** The most changes that the memory keeps. */
const maxChanges = 100

export function encodeRecall({ baseline, changes, flapping, lookAgainAt, lastId }: Recall): string {
  return JSON.stringify({
    baseline,
    ...(changes.length > 0 && { changes }),
    ...(flapping.length > 0 && { flapping }),
    ...(lookAgainAt !== null && { lookAgainAt }),
    ...(lastId !== '' && { lastId }),
  })
}

export function decodeRecall(text: string): Recall {
  return { changes: [], flapping: [], lookAgainAt: null, lastId: '', ...JSON.parse(text) }
}
