import type { NewJob } from '../jobs/index.ts'

/**
 * The store of the monitor. All its rows are in the SQL store, because a decision and its notifications commit
 * together. The store keeps rows and compares versions; decide.ts decides whether a change is notified.
 *
 * The service decides about a report on the answer of `known`. `write` succeeds only if none of that changed meanwhile,
 * so no row is locked while the service decides.
 *
 * The key of a subject is the SHA-256 of its parts in hexadecimal; the key of a state is the SHA-256 of its canonical
 * form. States, channels and matchers are JSON text. Times are of the store's clock.
 */
export interface MonitorStore {
  /**
   * Reads these subjects, in order, and the revision of the rules. The store reads the revision first, then the
   * subjects, then their windows. A report that commits meanwhile raises a version, so `write` refuses the decision on
   * the older one.
   */
  known(ask: KnownAsk): Promise<Known>
  /** Writes everything in one transaction, or nothing. */
  write(batch: ReportBatch): Promise<BatchAnswer>

  /** The subscriptions and silences that have not ended, and a revision that rises with each change of them. */
  rules(): Promise<Rules>
  subscribe(subscription: NewSubscription): Promise<void>
  /** Also cancels its `pending` notifications in the same step. Returns false if there is none with this id. */
  unsubscribe(id: string): Promise<boolean>
  /** Replaces the channel of a subscription if it is still `from`. No rule changes, so the revision stays. */
  rewriteChannel(id: string, from: string, to: string): Promise<boolean>
  silence(silence: NewSilence): Promise<void>
  unsilence(id: string): Promise<boolean>

  /**
   * Takes a channel for one sender, under a lease. If it is taken, the store marks it as `wanted`, so that its holder
   * checks again before it releases the channel. Taking the channel clears the mark; the holder's token takes it again.
   * `state` is the last state of `proceed`.
   */
  take(ask: TakeAsk): Promise<Taken>
  /**
   * Notifications of this channel that may be sent now, by id. They are due and unsettled (`pending`, or `sending` by a
   * dead sender or this one), and no earlier notification of the same subject in this channel is unsettled. Undefined:
   * the sender lost the channel. An expired lease is lost, even if no other sender took the channel.
   */
  due(ref: ChannelRef, limit: number): Promise<DueAnswer | undefined>
  /**
   * Writes ends (only of this channel's unsettled notifications), then marks beginnings (attempt + 1), and writes the
   * channel's state and lease. Returns false, and writes nothing, if the sender lost the channel.
   */
  proceed(ref: ChannelRef, step: SendingStep): Promise<boolean>
  /**
   * Releases the channel, unless it is `wanted`: then the mark is cleared, the channel stays taken, and the answer is
   * 'wanted'.
   */
  letGo(ref: ChannelRef): Promise<'released' | 'wanted' | 'lost'>

  /** Newest first; `before` is the last id of the previous page. */
  decisions(query: DecisionQuery): Promise<readonly DecisionRecord[]>
  notifications(query: NotificationQuery): Promise<readonly NotificationRecord[]>
  notification(id: string): Promise<NotificationRecord | undefined>
  /** The number of dead notifications by subscription, and the time of the oldest. */
  countDead(): Promise<readonly DeadCount[]>
  /** Subjects by source, time slot, venue. `after` is the last subject of the previous page. */
  subjects(query: SubjectQuery): Promise<readonly SubjectRecord[]>
  /**
   * Makes a dead or held notification pending again: attempt 0, due now, a possible repeat if it was held. The same
   * step reserves its window again and adds the job. Returns false if no dead or held notification has this id.
   */
  replay(id: string, job: NewJob): Promise<boolean>
  /**
   * Deletes up to `limit` rows each of decisions, settled notifications and notified windows that are older than that,
   * and of silences that ended. Returns the number of all deleted rows.
   */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** The key and the names of a subject. `subject-forms.ts` maps the forms of callers to these. */
export interface SubjectName {
  /** The key: SHA-256 of source, group and name, hexadecimal. */
  readonly subject: string
  readonly source: string
  /** The time slot of a venue; empty for a subject of the general form. */
  readonly group: string
  readonly name: string
}

export interface KnownAsk {
  /** Keys, each once. */
  readonly subjects: readonly string[]
  /** Counts the notifications of these subscriptions within `perMs`. */
  readonly throttles: readonly { readonly subscriptionId: string; readonly perMs: number }[]
}

export interface Known {
  /** The store's clock. */
  readonly now: number
  readonly revision: number
  readonly subjects: readonly (KnownSubject | undefined)[]
  /** In the order of `throttles`. */
  readonly counts: readonly number[]
}

export interface KnownSubject {
  /** Rises with every write of the subject; 1 after the first. */
  readonly version: number
  readonly state: string
  readonly stateHash: string
  readonly observedAt: number
  readonly changedAt: number
  /** JSON text that the service wrote: see `Recall` in decide.ts. */
  readonly memory: string
  readonly windows: readonly WindowRecord[]
}

/** A sent or pending notification of one state of a subject to one subscription. */
export interface WindowRecord {
  readonly subscriptionId: string
  readonly stateHash: string
  /** `pending`: reserved by a notification on its way. `notified`: at `notifiedAt`. `owed`: the notification died. */
  readonly status: 'pending' | 'notified' | 'owed'
  readonly notificationId: string
  /** When it was last notified; null: never. */
  readonly notifiedAt: number | null
  /** End of the window that began at `notifiedAt`, exclusive; null: no window. */
  readonly endsAt: number | null
}

export interface ReportBatch {
  /** The revision of the rules of this decision. */
  readonly revision: number
  /** Write only if these subscriptions had at most `most` notifications within `perMs` before this batch. */
  readonly throttles: readonly {
    readonly subscriptionId: string
    readonly perMs: number
    readonly most: number
  }[]
  readonly subjects: readonly SubjectWrite[]
  /** Event ids to claim: guards in the space 'monitor.event', done at once, kept for `keepMs`. */
  readonly events: readonly { readonly key: string; readonly keepMs: number }[]
  /**
   * Windows that these notifications reserve as `pending`. An earlier window of the state ends but keeps its
   * `notifiedAt`.
   */
  readonly reservations: readonly (Pick<NewNotification, 'subject' | 'subscriptionId' | 'stateHash'> & {
    readonly notificationId: string
  })[]
  readonly decisions: readonly NewDecision[]
  readonly notifications: readonly NewNotification[]
  readonly jobs: readonly NewJob[]
}

/**
 * `overtaken`: a subject's version or the rules' revision changed after the decision, or a throttle is used up.
 * `duplicate`: these event ids are taken. In both cases nothing was written.
 */
export type BatchAnswer =
  | { readonly status: 'written' }
  | { readonly status: 'overtaken' }
  | { readonly status: 'duplicate'; readonly events: readonly string[] }

export interface SubjectWrite extends SubjectName {
  /** The version that the decision read; 0: no row. */
  readonly version: number
  /** JSON text; null: unchanged (never with version 0). */
  readonly state: string | null
  /** For an unchanged state, the same hash. */
  readonly stateHash: string
  readonly observedAt: number
  /** True: `changedAt` becomes the store's now. */
  readonly changed: boolean
  readonly memory: string
  /** The memory is unchanged: a store need not write it. @default false */
  readonly sameMemory?: boolean
}

export interface NewDecision extends SubjectName {
  /** Sorts by time. */
  readonly id: string
  readonly taskId: string
  readonly reason: string
  readonly fromHash: string | null
  readonly toHash: string
  /** The states, as JSON text. */
  readonly fromText: string | null
  readonly toText: string
  readonly eventId: string | null
  readonly observedAt: number
  /** JSON text that the service wrote: the verdict for each subscription. */
  readonly verdicts: string
}

export interface DecisionRecord extends NewDecision {
  readonly decidedAt: number
}

export interface NewNotification extends SubjectName {
  /** Sorts by time: the order of sending within a subject. */
  readonly id: string
  readonly subscriptionId: string
  /** The key of its channel: SHA-256, hexadecimal. */
  readonly channel: string
  readonly decisionId: string | null
  readonly eventId: string | null
  /** 'change', 'flapping', 'reconcile'. */
  readonly kind: string
  readonly from: string | null
  readonly to: string
  readonly stateHash: string
  /** The window that the provider's ack opens. */
  readonly windowMs: number
  readonly maxAttempts: number
  /** From the store's now. */
  readonly delayMs: number
}

export type NotificationStatus = 'pending' | 'sending' | 'sent' | 'dead' | 'held' | 'cancelled'

export interface NotificationRecord extends Omit<NewNotification, 'delayMs'> {
  readonly status: NotificationStatus
  readonly attempt: number
  readonly dueAt: number
  readonly createdAt: number
  /** When it was sent, died, was held or cancelled. */
  readonly finishedAt: number | null
  /** JSON text `{ message, code? }` of the last failure. */
  readonly error: string | null
  readonly possibleRepeat: boolean
  /** The id of the message that it shared with others. */
  readonly digestId: string | null
}

export interface ChannelRef {
  readonly channel: string
  readonly token: string
}

export interface TakeAsk extends ChannelRef {
  readonly leaseMs: number
}

export type Taken =
  | { readonly taken: true; readonly now: number; readonly state: string | null }
  | { readonly taken: false }

export interface DueAnswer {
  readonly now: number
  readonly items: readonly NotificationRecord[]
  /** When the channel's next notification that is not due yet becomes due; null: none. */
  readonly nextAt: number | null
}

export interface SendingStep {
  readonly leaseMs: number
  readonly state: string | null
  readonly ends: readonly SendingEnd[]
  /** Unsettled notifications to mark as `sending`. `repeat`: it may have been sent before. */
  readonly begin: readonly { readonly id: string; readonly repeat: boolean }[]
}

/**
 * `sending-end.ts` defines how an end changes the notification and its windows. A dead notification frees its event id.
 * `retry`: due `afterMs` from now; with `free`, the attempt does not count. `held`: kept for an operator.
 */
export interface SendingEnd {
  readonly id: string
  readonly outcome: 'sent' | 'retry' | 'dead' | 'held' | 'cancelled'
  readonly afterMs?: number
  readonly free?: boolean
  readonly error: string | null
  readonly digestId: string | null
}

export interface Rules {
  readonly revision: number
  readonly subscriptions: readonly SubscriptionRecord[]
  readonly silences: readonly SilenceRecord[]
}

/** `match`, `channel` and `options` are JSON text. With a key, the secrets of a channel are sealed. */
export interface NewSubscription {
  readonly id: string
  readonly name: string
  readonly match: string
  readonly channel: string
  readonly options: string
}

export interface SubscriptionRecord extends NewSubscription {
  readonly createdAt: number
}

/** `match` is JSON text. `startsAt` null: the store's now. */
export interface NewSilence {
  readonly id: string
  readonly match: string
  readonly comment: string
  readonly startsAt: number | null
  readonly forMs: number
}

export interface SilenceRecord extends Pick<NewSilence, 'id' | 'match' | 'comment'> {
  readonly startsAt: number
  readonly endsAt: number
}

export interface DecisionQuery {
  readonly subject?: string
  readonly reason?: string
  readonly limit: number
  readonly before?: string
}

export interface NotificationQuery {
  readonly subject?: string
  readonly subscriptionId?: string
  readonly status?: NotificationStatus
  /** Only these. */
  readonly ids?: readonly string[]
  readonly limit: number
  readonly before?: string
}

export interface DeadCount {
  readonly subscriptionId: string
  readonly count: number
  /** When the oldest died. */
  readonly since: number
}

export interface SubjectQuery {
  readonly source?: string
  /** Only subjects whose name contains this text. */
  readonly search?: string
  readonly limit: number
  readonly after?: { readonly source: string; readonly group: string; readonly name: string }
}

export type SubjectRecord = SubjectName & Omit<KnownSubject, 'memory' | 'windows'>
