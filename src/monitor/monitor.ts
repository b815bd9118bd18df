import { SignalboxError } from '../core/errors.ts'
import { text } from '../core/options.ts'
import { type JobStore, type JobsNotifier, queueTopic } from '../jobs/index.ts'
import { createUpkeep, type GuardStore, OnceTally } from '../once/index.ts'
import type { Channel } from './channels/channel.ts'
import { parseChannel as parseRealChannel, type SubscriptionChannel } from './channels/index.ts'
import { createOutbound, type Outbound } from './delivery/outbound.ts'
import {
  createSender,
  type Sender,
  type SenderOptions,
  sendTest,
  type TestSendAnswer,
} from './delivery/sender.ts'
import { type MonitorOptions, resolveMonitorOptions } from './monitor-options.ts'
import {
  type ExplainOptions,
  type Explanation,
  encodeCursor,
  findProblems,
  type ListDecisionsOptions,
  type ListNotificationsOptions,
  type ListSubjectsOptions,
  type MonitorProblems,
  resolveExplain,
  resolveListDecisions,
  resolveListNotifications,
  resolveListSubjects,
  type ShownDecision,
  type ShownNotification,
  type ShownSubject,
  showDecision,
  showNotification,
  showSubject,
  showWindows,
} from './monitor-reads.ts'
import type { MonitorStore, NotificationRecord } from './monitor-store.ts'
import { createMint, notifyJob, notifyQueue } from './notification-queue.ts'
import type { Report, ReportAnswer } from './report/report.ts'
import { type BatchParts, runBatch, runReport } from './report/run-report.ts'
import { type ResealAnswer, resealChannels, type SecretKeys, StoredChannels } from './stored-channels.ts'
import { type GivenPlace, resolvePlace, showPlace } from './subject-forms.ts'
import {
  decodeSubscription,
  resolveSubscription,
  type SubscribeOptions,
  type Subscription,
} from './subscription.ts'
import {
  createRuleCache,
  decodeSilence,
  resolveSilence,
  type Silence,
  type SilenceOptions,
} from './subscription-rules.ts'

/**
 * The verbs of the monitor: what users, the server and the command line say to the monitor. A report decides and writes what
 * is to be notified; notifying it is the sender's.
 */
export interface Monitor extends AsyncDisposable {
  /**
   * Takes what a task saw of its venues: compares it with what was known, decides whom to notify, and writes all of that
   * together. Throws `store_unavailable` and the like when nothing of it could be written.
   */
  report(report: Report): Promise<ReportAnswer>
  /** Throws `invalid_argument`; no complaint shows an address or a secret. */
  subscribe(options: SubscribeOptions): Promise<Subscription>
  /** What waits to be sent to it is cancelled. False: there was no such. */
  unsubscribe(id: string): Promise<boolean>
  /** All of them, oldest first, without secrets. */
  subscriptions(): Promise<readonly Subscription[]>
  silence(options: SilenceOptions): Promise<Silence>
  unsilence(id: string): Promise<boolean>
  /** Those that have not ended. */
  silences(): Promise<readonly Silence[]>
  /** Why was this notified, or not: the decisions about a venue, each with its reason and what became of its notifications. */
  explain(options: ExplainOptions): Promise<Explanation>
  decisions(options?: ListDecisionsOptions): Promise<Page<ShownDecision>>
  notifications(options?: ListNotificationsOptions): Promise<Page<ShownNotification>>
  notification(id: string): Promise<ShownNotification | undefined>
  /** Sends one that is dead or held once more. Throws `not_found`, `conflict`. */
  replay(id: string): Promise<{ readonly id: string; readonly status: 'pending' }>
  subjects(options?: ListSubjectsOptions): Promise<Page<ShownSubject>>
  /** Sends a message through a channel now, past all queues and limits, for the person who sets it up. */
  test(channel: SubscriptionChannel): Promise<TestSendAnswer>
  /**
   * A sender of the notifications, once it is started. Any number may run, in any number of processes; a server runs one.
   *
   *     await using sender = monitor.sender({ concurrency: 10 })
   *     await sender.start()
   */
  sender(options?: SenderOptions): Sender
  /** Looks at one venue again, as the jobs do that a report left for it: notifies what was held back, if it is due. */
  reconcile(place: unknown): Promise<void>
  /** What needs an operator: subscriptions with dead notifications, and those whose channel is sealed with a missing key. */
  problems(): Promise<MonitorProblems>
  /**
   * Seals the channel of every subscription with the first key: those in plain, and those that another key sealed. Throws
   * `invalid_argument` when there is no key.
   */
  reseal(): Promise<ResealAnswer>
}

/** Newest first where there is a time. `cursor` is null at the end. */
interface Page<Item> {
  readonly items: readonly Item[]
  readonly cursor: string | null
}

/** What a monitor is made of; the caller hands it in from a backend. */
export interface MonitorParts {
  readonly store: MonitorStore
  /** For tasks that are being reported; in the same store. */
  readonly guards: GuardStore
  /** What was decided is sent by jobs; in the same store. */
  readonly jobs: JobStore
  readonly notifier: JobsNotifier
  /** The namespace of the store: what is sealed here opens nowhere else. @default 'default' */
  readonly namespace?: string | undefined
  /** Seal the secrets of channels. @default none: they are kept in plain */
  readonly secretKeys?: SecretKeys | undefined
  /** Counts together with guards. @default its own */
  readonly tally?: OnceTally | undefined
  /** @default the channels there are, with `allowPrivate` */
  readonly parseChannel?: ((config: unknown) => Channel) | undefined
}

export function createMonitor(parts: MonitorParts, options: MonitorOptions = {}): Monitor {
  const { store, guards, notifier, tally = new OnceTally() } = parts
  const resolved = resolveMonitorOptions(options)
  const { allowPrivate } = resolved
  const parseChannel = parts.parseChannel ?? ((config) => parseRealChannel(config, { allowPrivate }))
  const { namespace = 'default', secretKeys: keys } = parts
  const channels = new StoredChannels({ namespace, keys, parse: parseChannel })
  const rules = createRuleCache(store, channels)
  const batchParts: BatchParts = {
    store,
    rules,
    notifier,
    tally,
    eventKeepMs: resolved.eventDedupTtlMs,
    mint: createMint(),
  }
  // Made when something is first sent from here.
  let outbound: Outbound | undefined
  const reach = (): Outbound => {
    outbound ??= createOutbound({ allowPrivate })
    return outbound
  }
  const senders = new Set<Sender>()
  const upkeep = createUpkeep({
    name: 'monitor.upkeep',
    idleMs: 60_000,
    prune: async (limit) => [
      await store.prune({ olderThanMs: resolved.keepMs, limit }),
      await guards.prune(limit),
    ],
  })

  async function present(): ReturnType<typeof rules.book> {
    rules.drop()
    return rules.book()
  }

  async function show(records: readonly NotificationRecord[]): Promise<readonly ShownNotification[]> {
    if (records.length === 0) return []
    const book = await present()
    return records.map((record) => showNotification(record, book))
  }

  return {
    async report(report) {
      upkeep.wake()
      return runReport({ ...batchParts, guards }, report, resolved)
    },

    async subscribe(options) {
      const record = resolveSubscription(options, resolved.notificationIntervalMs, parseChannel)
      await store.subscribe({ ...record, channel: channels.encode(record.id, record.channel) })
      const { subscribers } = await present()
      const made = subscribers.get(record.id)
      if (made) return decodeSubscription(made.record, made.stored)
      throw new SignalboxError(
        'conflict',
        `The subscription "${record.id}" was ended as soon as it was made.`,
      )
    },

    async unsubscribe(id) {
      const isEnded = await store.unsubscribe(text('unsubscribe.id', id))
      rules.drop()
      return isEnded
    },

    async subscriptions() {
      const { subscribers } = await present()
      return Array.from(subscribers.values(), ({ record, stored }) => decodeSubscription(record, stored))
    },

    async silence(options) {
      const record = resolveSilence(options)
      await store.silence(record)
      rules.drop()
      const { silences } = await store.rules()
      const made = silences.find(({ id }) => id === record.id)
      if (made) return decodeSilence(made)
      throw new SignalboxError('conflict', `The silence "${record.id}" was over as soon as it was made.`)
    },

    async unsilence(id) {
      const isEnded = await store.unsilence(text('unsilence.id', id))
      rules.drop()
      return isEnded
    },

    async silences() {
      return (await store.rules()).silences.map(decodeSilence)
    },

    async explain(options) {
      const { subject, query } = resolveExplain(options)
      const [known] = (await store.known({ subjects: [subject.subject], throttles: [] })).subjects
      const decisions = (await store.decisions(query)).map(showDecision)
      const ids = decisions.flatMap(({ verdicts }) =>
        verdicts.flatMap(({ notificationId }) => notificationId ?? []),
      )
      const notified = known?.windows.map(({ notificationId }) => notificationId) ?? []
      const all = [...new Set([...ids, ...notified])]
      const notices = all.length === 0 ? [] : await store.notifications({ ids: all, limit: all.length })
      const book = await present()
      const byId = new Map(notices.map((notice) => [notice.id, showNotification(notice, book)]))
      return {
        ...showPlace(subject),
        present: known
          ? { state: JSON.parse(known.state), observedAt: known.observedAt, changedAt: known.changedAt }
          : null,
        windows: showWindows(known, notices, book),
        decisions: decisions.map((decision) => ({
          ...decision,
          verdicts: decision.verdicts.map((verdict) => ({
            ...verdict,
            notification: byId.get(verdict.notificationId ?? '') ?? null,
          })),
        })),
        cursor: cursorOf(decisions, query.limit),
      }
    },

    async decisions(options = {}) {
      const query = resolveListDecisions(options)
      const items = (await store.decisions(query)).map(showDecision)
      return { items, cursor: cursorOf(items, query.limit) }
    },

    async notifications(options = {}) {
      const query = resolveListNotifications(options)
      const items = await show(await store.notifications(query))
      return { items, cursor: cursorOf(items, query.limit) }
    },

    async notification(id) {
      const record = await store.notification(text('notification.id', id))
      return record && (await show([record]))[0]
    },

    async replay(id) {
      const record = await store.notification(text('replay.id', id))
      if (!record) throw new SignalboxError('not_found', `There is no notification "${id}".`)
      const job = notifyJob('send', { channel: record.channel }, { delayMs: 0 })
      if (!(await store.replay(id, job))) {
        throw new SignalboxError(
          'conflict',
          `Notification "${id}" is ${record.status}; only one that is dead or held can be sent once more.`,
        )
      }
      notifier.wake(queueTopic(notifyQueue))
      return { id, status: 'pending' }
    },

    async subjects(options = {}) {
      const query = resolveListSubjects(options)
      const records = await store.subjects(query)
      const cursor = records.length === query.limit ? encodeCursor(records.at(-1)!) : null
      return { items: records.map(showSubject), cursor }
    },

    test: (channel) => sendTest(channel, { outbound: reach(), parseChannel }),

    sender(options) {
      const { jobs } = parts
      const sender = createSender({ store, jobs, notifier, outbound: reach(), channels, reconcile }, options)
      senders.add(sender)
      return sender
    },

    reconcile,
    reseal: () => resealChannels(store, channels),

    async problems() {
      const [book, counts] = await Promise.all([present(), store.countDead()])
      return findProblems(book, counts)
    },

    async [Symbol.asyncDispose]() {
      await Promise.all([...senders].map((sender) => sender.stop()))
      await outbound?.close({ isOver: true })
      await upkeep[Symbol.asyncDispose]()
    },
  }

  async function reconcile(place: unknown): Promise<void> {
    const subject = resolvePlace('reconcile', place as GivenPlace)
    const { source, group } = subject
    const seen = [{ ...subject, state: '', stateHash: '' }]
    const ask = { taskId: 'signalbox.reconcile', source, group, observedAt: 0, isReconcile: true, seen }
    await runBatch(batchParts, ask)
  }
}
function cursorOf(items: readonly { readonly id: string }[], limit: number): string | null {
  return items.length === limit ? items.at(-1)!.id : null
}
