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
 * The verbs of the monitor, for users, the server and the command line. A report decides which notifications to send
 * and writes them; the sender sends them.
 */
export interface Monitor extends AsyncDisposable {
  /**
   * Compares the subjects of a report with their known states, decides whom to notify, and writes the result in one
   * step. Throws `store_unavailable` and the like when nothing could be written.
   */
  report(report: Report): Promise<ReportAnswer>
  /** Throws `invalid_argument`; no error message shows an address or a secret. */
  subscribe(options: SubscribeOptions): Promise<Subscription>
  /** Ends a subscription and cancels its pending notifications. Returns false if there is none with this id. */
  unsubscribe(id: string): Promise<boolean>
  /** All subscriptions, oldest first, without secrets. */
  subscriptions(): Promise<readonly Subscription[]>
  silence(options: SilenceOptions): Promise<Silence>
  unsilence(id: string): Promise<boolean>
  /** The silences that have not ended. */
  silences(): Promise<readonly Silence[]>
  /**
   * Explains why subscribers were notified or not: the decisions about a subject, with their reasons and notifications.
   */
  explain(options: ExplainOptions): Promise<Explanation>
  decisions(options?: ListDecisionsOptions): Promise<Page<ShownDecision>>
  notifications(options?: ListNotificationsOptions): Promise<Page<ShownNotification>>
  notification(id: string): Promise<ShownNotification | undefined>
  /** Sends a dead or held notification again. Throws `not_found`, `conflict`. */
  replay(id: string): Promise<{ readonly id: string; readonly status: 'pending' }>
  subjects(options?: ListSubjectsOptions): Promise<Page<ShownSubject>>
  /** Sends a test message through a channel now, past all queues and limits, for the operator who sets it up. */
  test(channel: SubscriptionChannel): Promise<TestSendAnswer>
  /**
   * Creates a sender, which sends notifications once it is started. Any number may run, in any number of processes; a
   * server runs one.
   *
   *     await using sender = monitor.sender({ concurrency: 10 })
   *     await sender.start()
   */
  sender(options?: SenderOptions): Sender
  /**
   * Decides again about one subject, as the jobs of a report do: notifies a change that was held back, if it is due.
   */
  reconcile(place: unknown): Promise<void>
  /** The problems for an operator: subscriptions with dead notifications, and channels sealed with a missing key. */
  problems(): Promise<MonitorProblems>
  /**
   * Seals the channel of every subscription with the first key, also channels in plain text or sealed with another key.
   * Throws `invalid_argument` without a key.
   */
  reseal(): Promise<ResealAnswer>
}

/** A page; items with a time come newest first. `cursor` is null at the end. */
interface Page<Item> {
  readonly items: readonly Item[]
  readonly cursor: string | null
}

/** The parts of a monitor, which the caller passes from a backend. */
export interface MonitorParts {
  readonly store: MonitorStore
  /** Guards of the tasks that are being reported; in the same store. */
  readonly guards: GuardStore
  /** The jobs that send notifications; in the same store. */
  readonly jobs: JobStore
  readonly notifier: JobsNotifier
  /** The namespace of the store: sealed data opens in no other namespace. @default 'default' */
  readonly namespace?: string | undefined
  /** The keys that seal the secrets of channels. @default none: they are stored in plain text */
  readonly secretKeys?: SecretKeys | undefined
  /** Counts together with guards. @default its own */
  readonly tally?: OnceTally | undefined
  /** @default parses the known types of channels, with `allowPrivate` */
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
  // Created when this process first sends a message.
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
        `The subscription "${record.id}" was ended right after it was created.`,
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
      throw new SignalboxError('conflict', `The silence "${record.id}" ended right after it was created.`)
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
          `Notification "${id}" is ${record.status}; only a dead or held notification can be sent again.`,
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
