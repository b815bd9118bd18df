import type { NewJob } from '../../jobs/index.ts'
import { eventId } from '../../once/index.ts'
import type {
  KnownSubject,
  NewDecision,
  NewNotification,
  SubjectName,
  SubjectWrite,
} from '../monitor-store.ts'
import { notifyJob } from '../notification-queue.ts'
import { showPlace } from '../subject-forms.ts'
import { decodeRecall, encodeRecall, isSameRecall, type Recall } from '../subject-memory.ts'
import type { RuleBook, Subscriber } from '../subscription-rules.ts'
import { type Decision, decide, type Verdict } from './decide.ts'
import type { Seen } from './report.ts'
import type { PlanAsk, Planned } from './report-plan.ts'

/** What is to be written for one subject. */
export interface Draft {
  readonly planned: Planned
  readonly subject: SubjectWrite | null
  readonly decision: NewDecision | null
  readonly notices: readonly { readonly notice: NewNotification; readonly heardBy: Verdict['heardBy'] }[]
  readonly look: NewJob | null
}

/** Decides one subject. `counts` is counted on, so that a throttle holds within the batch, too. */
export function draft(
  ask: PlanAsk,
  seen: Seen,
  before: KnownSubject | undefined,
  counts: Map<string, number>,
): Draft {
  // Most venues are as they were, and have no event to be named.
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
    // Where nothing changed just now, what they heard before is looked up, or not known.
    const from = isChange ? (before?.state ?? null) : null
    return { notice: notify(seen, from, subscriber, verdict, { ...marks, id: mint() }), heardBy }
  })
  return {
    planned: { seen, known: before, decision, eventId: claimed },
    subject: writeSubject(ask, seen, before, recall, { ...decision, recall: { ...decision.recall, lastId } }),
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

/** Null: nothing of it is other than it was. Who notifies somebody writes the subject, too: by its version it takes once. */
function writeSubject(
  { observedAt, isReconcile }: PlanAsk,
  seen: Seen,
  before: KnownSubject | undefined,
  recalled: Recall | undefined,
  { reason, isChange, verdicts, recall, lookAgainAt }: Decision,
): SubjectWrite | null {
  // Of most subjects nothing else is remembered than before.
  const sameMemory = recalled !== undefined && isSameRecall(recalled, recall)
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
    memory: sameMemory ? before!.memory : encodeRecall(recall),
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

/** The change by its name: the same for everybody who saw it, whatever fields they ignore. */
function nameEvent(seen: Seen, before: KnownSubject | undefined): string {
  return eventId({ ...showPlace(seen), from: before?.stateHash ?? null, to: seen.stateHash })
}

function notify(
  seen: Seen,
  from: string | null,
  { id, stored, options }: Subscriber,
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
    windowMs: options.windowMs,
    maxAttempts: options.maxRetries + 1,
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
