import type { JobStore } from '../../jobs/index.ts'
import { endNotification } from '../../monitor/delivery/sending-end.ts'
import type {
  BatchAnswer,
  ChannelRef,
  DecisionRecord,
  KnownAsk,
  KnownSubject,
  MonitorStore,
  NotificationRecord,
  ReportBatch,
  SendingEnd,
  SilenceRecord,
  SubjectName,
  SubjectWrite,
  SubscriptionRecord,
} from '../../monitor/monitor-store.ts'
import type { GuardStore } from '../../once/guard-store.ts'
import { compareBytes } from '../compare-bytes.ts'
import { MemoryWindows } from './windows.ts'

type Writable<Record> = { -readonly [Key in keyof Record]: Record[Key] }
type Subject = SubjectName & Omit<KnownSubject, 'windows'>
type Notification = Writable<NotificationRecord>

interface Channel {
  token: string | null
  leaseEndsAt: number
  wanted: boolean
  state: string | null
}

/**
 * The monitor in memory: the model for the other engines. Rows are in plain maps, and every look-up searches all of
 * them. `write` and `proceed` also call guards, which answer asynchronously. So the calls of a store run one after the
 * other.
 */
export class MemoryMonitor implements MonitorStore {
  readonly #now: () => number
  readonly #jobs: JobStore
  readonly #guards: GuardStore
  #turn: Promise<unknown> = Promise.resolve()
  #revision = 0
  readonly #subscriptions = new Map<string, SubscriptionRecord>()
  readonly #silences = new Map<string, SilenceRecord>()
  readonly #subjects = new Map<string, Subject>()
  readonly #windows = new MemoryWindows()
  readonly #decisions = new Map<string, DecisionRecord>()
  readonly #notifications = new Map<string, Notification>()
  readonly #channels = new Map<string, Channel>()

  constructor(now: () => number, { jobs, guards }: { jobs: JobStore; guards: GuardStore }) {
    this.#now = now
    this.#jobs = jobs
    this.#guards = guards
  }

  known({ subjects, throttles }: Parameters<MonitorStore['known']>[0]): ReturnType<MonitorStore['known']> {
    return this.#inTurn((now) => ({
      now,
      revision: this.#revision,
      subjects: subjects.map((key) => {
        const { subject, source, group, name, ...known } = this.#subjects.get(key) ?? unknownSubject
        return known.version === 0 ? undefined : { ...known, windows: this.#windows.of(key) }
      }),
      counts: throttles.map((throttle) => this.#countMade(throttle, now)),
    }))
  }

  write(batch: ReportBatch): Promise<BatchAnswer> {
    return this.#inTurn(async (at) => {
      if (batch.throttles.some((throttle) => this.#countMade(throttle, at) > throttle.most))
        return { status: 'overtaken' }
      const isCurrent = ({ subject, version }: SubjectWrite) =>
        (this.#subjects.get(subject)?.version ?? 0) === version
      if (batch.revision !== this.#revision || !batch.subjects.every(isCurrent))
        return { status: 'overtaken' }
      const taken = await this.#claimEvents(batch.events)
      if (taken.length > 0) return { status: 'duplicate', events: taken }
      await this.#jobs.add(batch.jobs)
      const now = this.#now()
      for (const subject of batch.subjects) this.#writeSubject(subject, now)
      for (const reservation of batch.reservations) this.#windows.reserve(reservation)
      for (const decision of batch.decisions)
        this.#decisions.set(decision.id, { ...decision, decidedAt: now })
      for (const { delayMs, ...notification } of batch.notifications)
        this.#notifications.set(notification.id, {
          ...notification,
          ...untried,
          dueAt: now + delayMs,
          createdAt: now,
        })
      return { status: 'written' }
    })
  }

  rules(): ReturnType<MonitorStore['rules']> {
    return this.#inTurn((now) => ({
      revision: this.#revision,
      subscriptions: [...this.#subscriptions.values()].sort(byId),
      silences: [...this.#silences.values()].filter(({ endsAt }) => endsAt > now).sort(byId),
    }))
  }

  subscribe(subscription: Parameters<MonitorStore['subscribe']>[0]): Promise<void> {
    return this.#inTurn((now) => {
      this.#subscriptions.set(subscription.id, { ...subscription, createdAt: now })
      this.#revision++
    })
  }

  rewriteChannel(id: string, from: string, to: string): Promise<boolean> {
    return this.#inTurn(() => {
      const subscription = this.#subscriptions.get(id)
      if (subscription?.channel !== from) return false
      this.#subscriptions.set(id, { ...subscription, channel: to })
      return true
    })
  }

  countDead(): ReturnType<MonitorStore['countDead']> {
    return this.#inTurn(() => {
      const dead = [...this.#notifications.values()].filter(({ status }) => status === 'dead')
      const groups = Map.groupBy(dead, ({ subscriptionId }) => subscriptionId)
      return Array.from(groups, ([subscriptionId, members]) => ({
        subscriptionId,
        count: members.length,
        since: Math.min(...members.map(({ finishedAt }) => finishedAt!)),
      }))
    })
  }

  unsubscribe(id: string): Promise<boolean> {
    return this.#inTurn((now) => {
      if (!this.#subscriptions.delete(id)) return false
      this.#revision++
      for (const one of this.#notifications.values())
        if (one.subscriptionId === id && one.status === 'pending')
          this.#end(one, { id: one.id, outcome: 'cancelled', error: one.error, digestId: one.digestId }, now)
      return true
    })
  }

  silence({ startsAt, forMs, ...silence }: Parameters<MonitorStore['silence']>[0]): Promise<void> {
    return this.#inTurn((now) => {
      const from = startsAt ?? now
      this.#silences.set(silence.id, { ...silence, startsAt: from, endsAt: from + forMs })
      this.#revision++
    })
  }

  unsilence(id: string): Promise<boolean> {
    return this.#inTurn(() => {
      if (!this.#silences.delete(id)) return false
      this.#revision++
      return true
    })
  }

  take({
    channel: name,
    token,
    leaseMs,
  }: Parameters<MonitorStore['take']>[0]): ReturnType<MonitorStore['take']> {
    return this.#inTurn((now) => {
      const channel = this.#channels.get(name) ?? { token: null, leaseEndsAt: 0, wanted: false, state: null }
      this.#channels.set(name, channel)
      if (channel.token !== null && channel.token !== token && channel.leaseEndsAt > now) {
        channel.wanted = true
        return { taken: false }
      }
      Object.assign(channel, { token, leaseEndsAt: now + leaseMs, wanted: false })
      return { taken: true, now, state: channel.state }
    })
  }

  due(ref: ChannelRef, limit: number): ReturnType<MonitorStore['due']> {
    return this.#inTurn((now) => {
      if (!this.#held(ref, now)) return undefined
      const unsettled = [...this.#notifications.values()].filter((one) => isUnsettled(one, ref)).sort(byId)
      const isFirst = (one: Notification) => unsettled.find(({ subject }) => subject === one.subject) === one
      const later = unsettled.filter(({ dueAt }) => dueAt > now).map(({ dueAt }) => dueAt)
      return {
        now,
        items: unsettled
          .filter((one) => one.dueAt <= now && isFirst(one))
          .slice(0, limit)
          .map((one) => ({ ...one })),
        nextAt: later.length === 0 ? null : Math.min(...later),
      }
    })
  }

  proceed(ref: ChannelRef, step: Parameters<MonitorStore['proceed']>[1]): Promise<boolean> {
    return this.#inTurn(async (now) => {
      const channel = this.#held(ref, now)
      if (!channel) return false
      channel.state = step.state
      channel.leaseEndsAt = Math.max(channel.leaseEndsAt, now + step.leaseMs)
      const gone: string[] = []
      for (const end of step.ends) {
        const one = this.#notifications.get(end.id)
        if (!one || !isUnsettled(one, ref)) continue
        this.#end(one, end, now)
        if (end.outcome === 'dead' && one.eventId !== null) gone.push(one.eventId)
      }
      for (const { id, repeat } of step.begin) {
        const one = this.#notifications.get(id)
        if (!one || !isUnsettled(one, ref)) continue
        one.status = 'sending'
        one.attempt++
        one.possibleRepeat ||= repeat
      }
      for (const key of gone) await this.#guards.forget(eventSpace, key)
      return true
    })
  }

  letGo(ref: ChannelRef): ReturnType<MonitorStore['letGo']> {
    return this.#inTurn((now) => {
      const channel = this.#held(ref, now)
      if (!channel) return 'lost'
      const { wanted } = channel
      channel.wanted = false
      if (wanted) return 'wanted'
      channel.token = null
      return 'released'
    })
  }

  decisions(query: Parameters<MonitorStore['decisions']>[0]): ReturnType<MonitorStore['decisions']> {
    return this.#inTurn(() =>
      newestFirst(this.#decisions, query)
        .filter(({ subject }) => query.subject === undefined || subject === query.subject)
        .filter(({ reason }) => query.reason === undefined || reason === query.reason)
        .slice(0, query.limit),
    )
  }

  notifications(
    query: Parameters<MonitorStore['notifications']>[0],
  ): ReturnType<MonitorStore['notifications']> {
    return this.#inTurn(() =>
      newestFirst(this.#notifications, query)
        .filter(({ id }) => query.ids === undefined || query.ids.includes(id))
        .filter(({ subject }) => query.subject === undefined || subject === query.subject)
        .filter((one) => query.subscriptionId === undefined || one.subscriptionId === query.subscriptionId)
        .filter(({ status }) => query.status === undefined || status === query.status)
        .slice(0, query.limit)
        .map((one) => ({ ...one })),
    )
  }

  notification(id: string): Promise<NotificationRecord | undefined> {
    return this.#inTurn(() => {
      const one = this.#notifications.get(id)
      return one && { ...one }
    })
  }

  subjects(query: Parameters<MonitorStore['subjects']>[0]): ReturnType<MonitorStore['subjects']> {
    const { source, search, limit, after } = query
    return this.#inTurn(() =>
      [...this.#subjects.values()]
        .filter((one) => source === undefined || one.source === source)
        .filter((one) => search === undefined || one.name.includes(search))
        .filter((one) => after === undefined || compareNames(one, after) > 0)
        .sort(compareNames)
        .slice(0, limit)
        .map(({ memory, ...one }) => one),
    )
  }

  replay(id: string, job: Parameters<MonitorStore['replay']>[1]): Promise<boolean> {
    return this.#inTurn(async (now) => {
      const one = this.#notifications.get(id)
      if (!one || (one.status !== 'dead' && one.status !== 'held')) return false
      const possibleRepeat = one.possibleRepeat || one.status === 'held'
      Object.assign(one, { status: 'pending', attempt: 0, dueAt: now, finishedAt: null, possibleRepeat })
      this.#windows.reserve({ ...one, notificationId: id })
      await this.#jobs.add([job])
      return true
    })
  }

  prune({ olderThanMs, limit }: Parameters<MonitorStore['prune']>[0]): Promise<number> {
    return this.#inTurn((now) => {
      const isOld = (at: number | null) => at !== null && at < now - olderThanMs
      let count = 0
      const forget = <Row>(rows: Map<string, Row>, isGone: (row: Row) => boolean) => {
        const gone = [...rows].filter(([, row]) => isGone(row)).slice(0, limit)
        for (const [key] of gone) rows.delete(key)
        count += gone.length
      }
      forget(this.#decisions, ({ decidedAt }) => isOld(decidedAt))
      forget(this.#notifications, ({ finishedAt }) => isOld(finishedAt))
      forget(this.#silences, ({ endsAt }) => isOld(endsAt))
      count += this.#windows.prune(isOld, limit)
      return count
    })
  }

  /** The number of recent notifications of a subscription. */
  #countMade({ subscriptionId, perMs }: KnownAsk['throttles'][number], now: number): number {
    return [...this.#notifications.values()].filter(
      (one) => one.subscriptionId === subscriptionId && one.createdAt > now - perMs,
    ).length
  }

  /** Runs calls one after the other. An error of one call does not affect the next. */
  #inTurn<Answer>(step: (now: number) => Answer | Promise<Answer>): Promise<Answer> {
    const answer = this.#turn.then(() => step(this.#now()))
    this.#turn = answer.catch(() => undefined)
    return answer
  }

  /** The channel, if this sender holds its lease. */
  #held({ channel: name, token }: ChannelRef, now: number): Channel | undefined {
    const channel = this.#channels.get(name)
    return channel?.token === token && channel.leaseEndsAt > now ? channel : undefined
  }

  /** Claims all event keys as done, or none. Answers the keys that are taken. */
  async #claimEvents(events: ReportBatch['events']): Promise<readonly string[]> {
    if (events.length === 0) return []
    const standings = await this.#guards.claim(
      events.map(({ key, keepMs }) => ({
        space: eventSpace,
        key,
        leaseMs: keepMs,
        keepMs,
        mode: 'at-least-once',
        fingerprint: null,
      })),
    )
    const ours = standings.flatMap((standing, index) =>
      standing.status === 'run' ? [{ key: events[index]!.key, token: standing.token }] : [],
    )
    const isFree = ours.length === events.length
    const end = isFree ? 'done' : 'released'
    await this.#guards.settle(ours.map((own) => ({ space: eventSpace, ...own, end, result: null })))
    return events.filter((_, index) => standings[index]!.status !== 'run').map(({ key }) => key)
  }

  #writeSubject({ changed, version, state, sameMemory: _, ...write }: SubjectWrite, now: number): void {
    const before = this.#subjects.get(write.subject)
    this.#subjects.set(write.subject, {
      ...write,
      version: version + 1,
      state: state ?? before!.state,
      changedAt: changed || !before ? now : before.changedAt,
    })
  }

  #end(one: Notification, end: SendingEnd, now: number): void {
    Object.assign(one, endNotification(one, end, now))
    const presentHash = this.#subjects.get(one.subject)?.stateHash ?? null
    this.#windows.end(one.subject, end.outcome, { notification: one, presentHash, now })
  }
}

const eventSpace = 'monitor.event'

const untried = {
  status: 'pending',
  attempt: 0,
  finishedAt: null,
  error: null,
  possibleRepeat: false,
  digestId: null,
} as const

const unknownSubject: Subject = {
  subject: '',
  source: '',
  group: '',
  name: '',
  version: 0,
  state: '',
  stateHash: '',
  observedAt: 0,
  changedAt: 0,
  memory: '',
}

function isUnsettled({ channel, status }: Notification, ref: ChannelRef): boolean {
  return channel === ref.channel && (status === 'pending' || status === 'sending')
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return a.id < b.id ? -1 : 1
}

function newestFirst<Row extends { readonly id: string }>(
  rows: ReadonlyMap<string, Row>,
  { before }: { readonly before?: string },
): Row[] {
  return [...rows.values()].filter(({ id }) => before === undefined || id < before).sort((a, b) => byId(b, a))
}

type Named = Omit<SubjectName, 'subject'>

function compareNames(a: Named, b: Named): number {
  return compareBytes(a.source, b.source) || compareBytes(a.group, b.group) || compareBytes(a.name, b.name)
}
