import type { NewJob } from '../../jobs/index.ts'
import { eventId } from '../../once/index.ts'
import type {
  Known,
  KnownSubject,
  NewDecision,
  NewNotification,
  ReportBatch,
  SubjectName,
  SubjectWrite,
} from '../monitor-store.ts'
import { type Mint, notifyJob } from '../notification-queue.ts'
import { showPlace } from '../subject-forms.ts'
import type { RuleBook, Subscriber } from '../subscription-rules.ts'
import { type Decision, decide, decodeRecall, encodeRecall, type Verdict } from './decide.ts'
import type { Seen } from './report.ts'

/** The subjects to decide together, and the facts for the decision. */
export interface PlanAsk {
  readonly taskId: string
  readonly observedAt: number
  readonly isReconcile: boolean
  readonly seen: readonly Seen[]
  readonly known: Known
  readonly book: RuleBook
  /** The subscribers whose matcher may match a subject of this source and group. */
  readonly near: readonly Subscriber[]
  /** Event ids that are taken. */
  readonly taken: ReadonlySet<string>
  readonly eventKeepMs: number
  readonly mint: Mint
}

/** The decision about one subject. */
export interface Planned {
  readonly seen: Seen
  readonly known: KnownSubject | undefined
  readonly decision: Decision
  /** The event id that this decision claims. */
  readonly eventId: string | null
}

export interface Plan {
  readonly batch: ReportBatch
  readonly planned: readonly Planned[]
  /** For notifications whose `from` is the state in another notification: that notification, by id. */
  readonly heard: ReadonlyMap<string, NonNullable<Verdict['heardBy']>>
}

/** A clock further ahead is wrong, and would make all later reports stale. */
const aheadMs = 60_000

/** Decides a batch and returns the rows to write. */
export function plan(ask: PlanAsk): Plan {
  const { known } = ask
  const counts = new Map(
    throttled(ask.near).map(({ subscriptionId }, index) => [subscriptionId, known.counts[index] ?? 0]),
  )
  const observedAt = ask.observedAt > known.now + aheadMs ? known.now : ask.observedAt
  const timely = { ...ask, observedAt }
  const drafts = ask.seen.map((seen, index) => draft(timely, seen, known.subjects[index], counts))
  const notices = drafts.flatMap(({ notices }) => notices)
  const channels = new Set(notices.map(({ notice }) => notice.channel))
  const batch: ReportBatch = {
    revision: ask.book.revision,
    throttles: limits(ask.near, notices),
    subjects: drafts.flatMap(({ subject }) => subject ?? []),
    events: drafts.flatMap(({ planned: { eventId } }) =>
      eventId === null ? [] : [{ key: eventId, keepMs: ask.eventKeepMs }],
    ),
    reservations: notices.map(({ notice: { id, subject, subscriptionId, stateHash } }) => ({
      subject,
      subscriptionId,
      stateHash,
      notificationId: id,
    })),
    decisions: drafts.flatMap(({ decision }) => decision ?? []),
    notifications: notices.map(({ notice }) => notice),
    jobs: [
      ...drafts.flatMap(({ look }) => look ?? []),
      ...Array.from(channels, (channel) => notifyJob('send', { channel }, { delayMs: 0 })),
    ],
  }
  const heard = notices.flatMap(({ notice, heardBy }) => (heardBy ? [[notice.id, heardBy] as const] : []))
  return { batch, planned: drafts.map(({ planned }) => planned), heard: new Map(heard) }
}

/**
 * Others may notify the same subscriptions at the same time. So the store checks the throttles again when it writes.
 */
function limits(
  near: readonly Subscriber[],
  notices: readonly { readonly notice: { readonly subscriptionId: string } }[],
): ReportBatch['throttles'] {
  return near.flatMap(({ id, throttle }) => {
    const own = notices.filter(({ notice }) => notice.subscriptionId === id).length
    if (throttle === null || own === 0) return []
    return [{ subscriptionId: id, perMs: throttle.perMs, most: throttle.max - own }]
  })
}

/** The subscribers whose notifications must be counted. */
export function throttled(
  subscribers: readonly Subscriber[],
): readonly { readonly subscriptionId: string; readonly perMs: number }[] {
  return subscribers.flatMap(({ id, throttle }) =>
    throttle === null ? [] : [{ subscriptionId: id, perMs: throttle.perMs }],
  )
}

interface Draft {
  readonly planned: Planned
  readonly subject: SubjectWrite | null
  readonly decision: NewDecision | null
  readonly notices: readonly { readonly notice: NewNotification; readonly heardBy: Verdict['heardBy'] }[]
  readonly look: NewJob | null
}

/** Decides one subject. It adds to `counts`, so that a throttle also applies within the batch. */
function draft(
  ask: PlanAsk,
  seen: Seen,
  before: KnownSubject | undefined,
  counts: Map<string, number>,
): Draft {
  // Most subjects are unchanged and have no event.
  const event = before?.stateHash === seen.stateHash ? null : nameEvent(seen, before)
  const isDuplicate = event !== null && ask.taken.has(event)
  const listeners = ask.near.filter(({ matcher }) => matcher.isName(seen.name))
  const recall = before && decodeRecall(before.memory)
  const decision = decide({
    now: ask.known.now,
    observedAt: ask.observedAt,
    stateHash: seen.stateHash,
    known: before,
    recall,
    listeners,
    silencedUntil: silencedUntil(ask.book, seen, ask.known.now),
    isDuplicate,
    eventKeepMs: ask.eventKeepMs,
    counts,
    isReconcile: ask.isReconcile,
  })
  const { reason, isChange, verdicts, lookAgainAt } = decision
  const notified = verdicts.filter((verdict) => verdict.notified)
  const claimed = isChange && notified.length > 0 ? event : null
  let { lastId } = decision.recall
  const mint = () => {
    lastId = ask.mint(ask.known.now, lastId)
    return lastId
  }
  const marks = {
    decisionId: reason === 'unchanged' ? null : mint(),
    eventId: isDuplicate ? event : claimed,
  }
  const notices = notified.map((verdict) => {
    const { subscriptionId, heardBy } = verdict
    counts.set(subscriptionId, (counts.get(subscriptionId) ?? 0) + 1)
    const subscriber = listeners.find(({ id }) => id === subscriptionId)!
    // Without a change in this report, `from` is the last notified state, which is read later, or unknown.
    const from = isChange ? (before?.state ?? null) : null
    return { notice: notify(seen, from, subscriber, verdict, { ...marks, id: mint() }), heardBy }
  })
  return {
    planned: { seen, known: before, decision, eventId: claimed },
    subject: writeSubject(ask, seen, before, { ...decision, recall: { ...decision.recall, lastId } }),
    decision: record(ask, seen, before, decision, marks, notices),
    notices,
    look: lookAgainAt === null ? null : lookJob(seen, lookAgainAt),
  }
}

interface Marks {
  /** Null: nothing is recorded. */
  readonly decisionId: string | null
  readonly eventId: string | null
}

/**
 * Null: nothing changed. A notification always writes the subject too, because its version makes the write happen once.
 */
function writeSubject(
  { observedAt, isReconcile }: PlanAsk,
  seen: Seen,
  before: KnownSubject | undefined,
  { reason, isChange, verdicts, recall, lookAgainAt }: Decision,
): SubjectWrite | null {
  const memory = encodeRecall(recall)
  const sameMemory = memory === before?.memory
  const isNewer = !isReconcile && reason !== 'stale' && observedAt > (before?.observedAt ?? 0)
  const isNotified = verdicts.some(({ notified }) => notified)
  const isForgotten = isReconcile && !sameMemory
  if (!isChange && !isNotified && !isNewer && !isForgotten && lookAgainAt === null) return null
  return {
    ...nameOf(seen),
    version: before?.version ?? 0,
    state: isChange ? seen.state : null,
    stateHash: seen.stateHash,
    observedAt: isNewer || !before ? observedAt : before.observedAt,
    changed: isChange,
    memory,
    sameMemory,
  }
}

function record(
  { taskId, observedAt, isReconcile }: PlanAsk,
  seen: Seen,
  before: KnownSubject | undefined,
  { reason, verdicts }: Decision,
  { decisionId, eventId }: Marks,
  notices: Draft['notices'],
): NewDecision | null {
  if (decisionId === null) return null
  const noticeOf = (id: string) =>
    notices.find(({ notice }) => notice.subscriptionId === id)?.notice.id ?? null
  return {
    ...nameOf(seen),
    id: decisionId,
    taskId,
    reason,
    fromHash: before?.stateHash ?? null,
    toHash: seen.stateHash,
    fromText: before?.state ?? null,
    toText: seen.state,
    eventId,
    observedAt: isReconcile ? before!.observedAt : observedAt,
    verdicts: JSON.stringify(
      verdicts.map(({ subscriptionId, notified, reason, kind }) => ({
        subscriptionId,
        notified,
        reason,
        kind,
        notificationId: noticeOf(subscriptionId),
      })),
    ),
  }
}

function lookJob(seen: Seen, runAt: number): NewJob {
  return notifyJob('reconcile', showPlace(seen), { runAt })
}

/** The id of the change: the same for all observers, whatever fields they ignore. */
function nameEvent(seen: Seen, before: KnownSubject | undefined): string {
  return eventId({ ...showPlace(seen), from: before?.stateHash ?? null, to: seen.stateHash })
}

function notify(
  seen: Seen,
  from: string | null,
  { id, stored, windowMs, maxRetries }: Subscriber,
  { kind }: Verdict,
  marks: Marks & { readonly id: string },
): NewNotification {
  return {
    ...nameOf(seen),
    ...marks,
    subscriptionId: id,
    channel: stored.key,
    kind,
    from,
    to: seen.state,
    stateHash: seen.stateHash,
    windowMs,
    maxAttempts: maxRetries + 1,
    delayMs: 0,
  }
}

function silencedUntil({ silences }: RuleBook, seen: Seen, now: number): number | null {
  let until: number | null = null
  for (const { startsAt, endsAt, matcher } of silences) {
    if (startsAt > now || endsAt <= now || endsAt <= (until ?? 0)) continue
    if (matcher.isNear(seen.source, seen.group) && matcher.isName(seen.name)) until = endsAt
  }
  return until
}

function nameOf({ subject, source, group, name }: Seen): SubjectName {
  return { subject, source, group, name }
}
