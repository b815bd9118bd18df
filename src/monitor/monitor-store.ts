import type { NewJob } from '../jobs/index.ts'

/**
 * What the monitor asks of a backend: all of it in the SQL store, because a decision and what it leads to commit
 * together. A store keeps rows and compares versions; whether something is notified, and why not, is decided in decide.ts.
 *
 * A report is decided on what `known` answers. `write` takes it only if nothing of that changed meanwhile, so no row is locked
 * while the service decides.
 *
 * A subject (source, time slot, venue) is named by the SHA-256 of its parts in hexadecimal, a state by the SHA-256 of its
 * canonical form. What users gave (states, channels, matchers) comes and goes as JSON text. Times are the store's clock.
 */
export interface MonitorStore {
  /**
   * What is known of these subjects, in order, and the revision of the rules. The revision is read first, then the subjects, then
   * their windows: a report that commits meanwhile raises a version, and `write` refuses what was decided on the older one.
   */
  known(ask: KnownAsk): Promise<Known>
  /** Writes everything in one transaction, or nothing. */
  write(batch: ReportBatch): Promise<BatchAnswer>

  /** Subscriptions and silences (those that have not ended), and the number that rises with every change of them. */
  rules(): Promise<Rules>
  subscribe(subscription: NewSubscription): Promise<void>
  /** False: no such. Its `pending` notifications are cancelled in the same step, as by `cancelled` below. */
  unsubscribe(id: string): Promise<boolean>
  /** Replaces the channel of a subscription if it is still `from`. It changes no rule: the revision stays. */
  rewriteChannel(id: string, from: string, to: string): Promise<boolean>
  silence(silence: NewSilence): Promise<void>
  unsilence(id: string): Promise<boolean>

  /**
   * Takes a channel for one sender, under a lease. A sender that finds it taken leaves word (`wanted`), so that its holder
   * looks again before it lets go. Taking the channel clears the word; the holder's token takes it again. `state` is what
   * `proceed` kept last.
   */
  take(ask: TakeAsk): Promise<Taken>
  /**
   * Notifications of this channel that may be sent now: due, unsettled (`pending`, or `sending` from a sender that
   * died, or the sender's own), and none of the same subject in this channel before it unsettled; by id. Undefined: the
   * channel is not the sender's any more. A lease that ran out is lost, whether or not another sender took the channel.
   */
  due(ref: ChannelRef, limit: number): Promise<DueAnswer | undefined>
  /**
   * Writes ends (of this channel's unsettled ones; others are left alone), then marks beginnings (attempt + 1), keeps the
   * channel's state as given and its lease; false, and nothing written: not ours.
   */
  proceed(ref: ChannelRef, step: SendingStep): Promise<boolean>
  /** Lets go, unless another sender left word: then `wanted` is cleared, it stays taken, and the answer is 'wanted'. */
  letGo(ref: ChannelRef): Promise<'released' | 'wanted' | 'lost'>

  /** Newest first; `before` is the last id of the page before. */
  decisions(query: DecisionQuery): Promise<readonly DecisionRecord[]>
  notifications(query: NotificationQuery): Promise<readonly NotificationRecord[]>
  notification(id: string): Promise<NotificationRecord | undefined>
  /** How many notifications are dead, by subscription, and since when. */
  countDead(): Promise<readonly DeadCount[]>
  /** Subjects by source, time slot, venue. `after` is the last of the page before. */
  subjects(query: SubjectQuery): Promise<readonly SubjectRecord[]>
  /**
   * Makes a dead or held notification pending again: attempt 0, due now, a possible repeat if it was held; its window is
   * reserved again; the job is added in the same step. False: no such, or not dead or held.
   */
  replay(id: string, job: NewJob): Promise<boolean>
  /**
   * Forgets up to `limit` rows each of decisions, settled notifications and notified windows that were made, settled or over
   * longer ago than that, and of silences that ended; answers how many in all.
   */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** A subject by its key and in words. `subject-forms.ts` maps the words of callers to these. */
export interface SubjectName {
  /** The key: SHA-256 of source, group and name, hexadecimal. */
  readonly subject: string
  readonly source: string
  /** The time slot of a venue; empty for a subject of the general form. */
  readonly group: string
  readonly name: string
}

export interface KnownAsk {
  /** Keys; none twice. */
  readonly subjects: readonly string[]
  /** Of these subscriptions, how many notifications were made within `perMs`. */
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
  /** JSON text as the service wrote it: when it changed lately, and what else it remembers of the subject. */
  readonly memory: string
  readonly windows: readonly WindowRecord[]
}

/** What one subscription was notified, or is about to be notified, of one state of a subject. */
export interface WindowRecord {
  readonly subscriptionId: string
  readonly stateHash: string
  /** `pending`: reserved by a notification on its way. `notified`: at `notifiedAt`. `owed`: the notification died. */
  readonly status: 'pending' | 'notified' | 'owed'
  readonly notificationId: string
  /** When it was last notified; null: never yet. */
  readonly notifiedAt: number | null
  /** End of the window that began at `notifiedAt`, exclusive; null: no window. */
  readonly endsAt: number | null
}

export interface ReportBatch {
  /** The rules that were decided by. */
  readonly revision: number
  /** Of these subscriptions, at most `most` notifications were made within `perMs` before this batch. */
  readonly throttles: readonly {
    readonly subscriptionId: string
    readonly perMs: number
    readonly most: number
  }[]
  readonly subjects: readonly SubjectWrite[]
  /** Event ids to claim: guards in the space 'monitor.event', done at once, kept `keepMs`. */
  readonly events: readonly { readonly key: string; readonly keepMs: number }[]
  /** Windows to reserve: `pending`, by that notification. What was notified of the state before stays noted (`notifiedAt`), its window ends. */
  readonly reservations: readonly (Pick<NewNotification, 'subject' | 'subscriptionId' | 'stateHash'> & {
    readonly notificationId: string
  })[]
  readonly decisions: readonly NewDecision[]
  readonly notifications: readonly NewNotification[]
  readonly jobs: readonly NewJob[]
}

/**
 * `overtaken`: a subject's version or the rules' revision is not the one decided on, or a throttle is used up. `duplicate`: those event ids are
 * taken. In both cases nothing was written.
 */
export type BatchAnswer =
  | { readonly status: 'written' }
  | { readonly status: 'overtaken' }
  | { readonly status: 'duplicate'; readonly events: readonly string[] }

export interface SubjectWrite extends SubjectName {
  /** The version decided on; 0: not there. */
  readonly version: number
  /** JSON text; null: as it was (never with version 0). */
  readonly state: string | null
  /** Of a state that is as it was, the hash is, too. */
  readonly stateHash: string
  readonly observedAt: number
  /** True: `changedAt` becomes the store's now. */
  readonly changed: boolean
  readonly memory: string
  /** The subject has this memory: a store may leave it as it is. @default false */
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
  /** JSON text: what became of it for each subscription, as the service writes it. */
  readonly verdicts: string
}

export interface DecisionRecord extends NewDecision {
  readonly decidedAt: number
}

export interface NewNotification extends SubjectName {
  /** Sorts by time: the order of sending within a subject. */
  readonly id: string
  readonly subscriptionId: string
  /** Which robot or address it goes through: SHA-256, hexadecimal. */
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
  /** The message it went out in, where it shared one with others. */
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
  /** When the next of this channel falls due that is not yet; null: none. */
  readonly nextAt: number | null
}

export interface SendingStep {
  readonly leaseMs: number
  readonly state: string | null
  readonly ends: readonly SendingEnd[]
  /** Ids of unsettled ones to mark `sending`; `repeat`: it may have been sent before. */
  readonly begin: readonly { readonly id: string; readonly repeat: boolean }[]
}

/**
 * `sending-end.ts` says what an end does to the notification and its windows. The event id of a dead one is forgotten.
 * `retry`: due `afterMs` from now; with `free`, the attempt is given back. `held`: kept for an operator.
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

/** `match`, `channel` and `options` are JSON text. The secrets of a channel are sealed where there is a key. */
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

/** `match` is JSON text. Instants; the store's now where `startsAt` is null. */
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
  /** When the oldest of them died. */
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
