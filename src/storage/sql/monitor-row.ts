import type {
  DeadCount,
  DecisionRecord,
  KnownSubject,
  NotificationRecord,
  NotificationStatus,
  SilenceRecord,
  SubjectRecord,
  SubscriptionRecord,
  WindowRecord,
} from '../../monitor/monitor-store.ts'

/**
 * The monitor's rows as the SQL engines keep them: columns in snake case, numbers as numbers or as decimal text, truth as
 * true or 1. JSON stays the text it is.
 */
type Whole = number | string

export interface SubjectRow {
  readonly subject: string
  readonly source: string
  readonly time_slot: string
  readonly venue_id: string
  readonly version: Whole
  readonly state: string
  readonly state_hash: string
  readonly observed_at: Whole
  readonly changed_at: Whole
}

export function decodeSubject(row: SubjectRow): SubjectRecord {
  return {
    ...nameOf(row),
    version: Number(row.version),
    state: row.state,
    stateHash: row.state_hash,
    observedAt: Number(row.observed_at),
    changedAt: Number(row.changed_at),
  }
}

export interface KnownSubjectRow extends Omit<SubjectRow, 'source' | 'time_slot' | 'venue_id'> {
  readonly memory: string
}

export function decodeKnownSubject(row: KnownSubjectRow, windows: readonly WindowRecord[]): KnownSubject {
  return {
    version: Number(row.version),
    state: row.state,
    stateHash: row.state_hash,
    observedAt: Number(row.observed_at),
    changedAt: Number(row.changed_at),
    memory: row.memory,
    windows,
  }
}

export interface WindowRow {
  readonly subject: string
  readonly subscription_id: string
  readonly state_hash: string
  readonly status: string
  readonly notification_id: string
  readonly notified_at: Whole | null
  readonly ends_at: Whole | null
}

export function decodeWindow(row: WindowRow): WindowRecord {
  return {
    subscriptionId: row.subscription_id,
    stateHash: row.state_hash,
    // The column still has its earlier word.
    status: row.status as WindowRecord['status'],
    notificationId: row.notification_id,
    notifiedAt: instant(row.notified_at),
    endsAt: instant(row.ends_at),
  }
}

export interface DeadCountRow {
  readonly subscription_id: string
  readonly count: Whole
  readonly since: Whole
}

export function decodeDeadCount({ subscription_id, count, since }: DeadCountRow): DeadCount {
  return { subscriptionId: subscription_id, count: Number(count), since: Number(since) }
}

export interface DecisionRow {
  readonly id: string
  readonly subject: string
  readonly source: string
  readonly time_slot: string
  readonly venue_id: string
  readonly task_id: string
  readonly reason: string
  readonly from_hash: string | null
  readonly to_hash: string
  readonly from_text: string | null
  readonly to_text: string
  readonly event_id: string | null
  readonly observed_at: Whole
  readonly verdicts: string
  readonly decided_at: Whole
}

export function decodeDecision(row: DecisionRow): DecisionRecord {
  return {
    id: row.id,
    ...nameOf(row),
    taskId: row.task_id,
    reason: row.reason,
    fromHash: row.from_hash,
    toHash: row.to_hash,
    fromText: row.from_text,
    toText: row.to_text,
    eventId: row.event_id,
    observedAt: Number(row.observed_at),
    verdicts: row.verdicts,
    decidedAt: Number(row.decided_at),
  }
}

export interface NotificationRow {
  readonly id: string
  readonly subscription_id: string
  readonly channel: string
  readonly subject: string
  readonly source: string
  readonly time_slot: string
  readonly venue_id: string
  readonly decision_id: string | null
  readonly event_id: string | null
  readonly kind: string
  readonly from_state: string | null
  readonly to_state: string
  readonly state_hash: string
  readonly window_ms: Whole
  readonly max_attempts: Whole
  readonly status: string
  readonly attempt: Whole
  readonly due_at: Whole
  readonly created_at: Whole
  readonly finished_at: Whole | null
  readonly error: string | null
  readonly possible_repeat: boolean | Whole
  readonly digest_id: string | null
}

export function decodeNotification(row: NotificationRow): NotificationRecord {
  return {
    id: row.id,
    subscriptionId: row.subscription_id,
    channel: row.channel,
    ...nameOf(row),
    decisionId: row.decision_id,
    eventId: row.event_id,
    kind: row.kind,
    from: row.from_state,
    to: row.to_state,
    stateHash: row.state_hash,
    windowMs: Number(row.window_ms),
    maxAttempts: Number(row.max_attempts),
    status: row.status as NotificationStatus,
    attempt: Number(row.attempt),
    dueAt: Number(row.due_at),
    createdAt: Number(row.created_at),
    finishedAt: instant(row.finished_at),
    error: row.error,
    possibleRepeat: Boolean(Number(row.possible_repeat)),
    digestId: row.digest_id,
  }
}

export interface SubscriptionRow {
  readonly id: string
  readonly name: string
  readonly match_on: string
  readonly channel: string
  readonly options: string
  readonly created_at: Whole
}

export function decodeSubscription(row: SubscriptionRow): SubscriptionRecord {
  return {
    id: row.id,
    name: row.name,
    match: row.match_on,
    channel: row.channel,
    options: row.options,
    createdAt: Number(row.created_at),
  }
}

export interface SilenceRow {
  readonly id: string
  readonly match_on: string
  readonly comment: string
  readonly starts_at: Whole
  readonly ends_at: Whole
}

export function decodeSilence(row: SilenceRow): SilenceRecord {
  return {
    id: row.id,
    match: row.match_on,
    comment: row.comment,
    startsAt: Number(row.starts_at),
    endsAt: Number(row.ends_at),
  }
}

function nameOf(row: Pick<SubjectRow, 'subject' | 'source' | 'time_slot' | 'venue_id'>): {
  readonly subject: string
  readonly source: string
  readonly group: string
  readonly name: string
} {
  return { subject: row.subject, source: row.source, group: row.time_slot, name: row.venue_id }
}

function instant(value: Whole | null): number | null {
  return value === null ? null : Number(value)
}
