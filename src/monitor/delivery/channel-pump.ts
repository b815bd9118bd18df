import { setTimeout as pause } from 'node:timers/promises'
import { createId } from '../../core/ids.ts'
import type { Channel } from '../channels/channel.ts'
import type { ChannelRef, DueAnswer, MonitorStore, NotificationRecord, SendingEnd } from '../monitor-store.ts'
import type { RuleCache, Subscriber } from '../subscription-rules.ts'
import { Limiter } from './channel-limiter.ts'
import { type Candidate, planMessages } from './digest.ts'
import { type Courier, prepareMessage, type Sendable, StoreTime, sendMessages } from './message-wave.ts'
import {
  codeOf,
  deadEnd,
  isWaitingForKey,
  judgeAbandoned,
  type SendingTally,
  type SendingTrouble,
  sealedEnd,
  sendingCodes,
  troubleOf,
} from './sending-outcome.ts'

/**
 * One turn for one channel: takes the channel, sends the due notifications, adds a job for the rest, releases the
 * channel.
 *
 *     take ─▶ due ─▶ plan ─▶ begin ─▶ send, some at once ─▶ write the ends ───┐
 *              ▲ └── none, or at the limit: a job for later ─▶ release ─▶ done │
 *              └──────────── wanted ◀────────┘ ◀──────────────────────────────┘
 *
 * Every write requires that this turn still holds the channel. Once the channel is lost, the turn stops and writes
 * nothing.
 *
 * No notification is forgotten, because it commits together with a job. A job that finds the channel taken marks it as
 * `wanted` and ends: the job of the holder does not end before it has released the channel. Only `busy` and `lost` are
 * tried again (see sender.ts).
 */
export interface PumpParts {
  readonly store: MonitorStore
  /** Adds a job for the channel at this instant of the store's clock, `delayMs` from now. */
  readonly comeBack: (
    channel: string,
    visit: { readonly at: number; readonly delayMs: number },
  ) => Promise<void>
  readonly courier: Courier
  readonly rules: RuleCache
  readonly tally: SendingTally
  /** Called for each undelivered notification, after the end is written. @default nothing */
  readonly onTrouble?: ((trouble: SendingTrouble) => void) | undefined
  /** See the options of a sender. A read has at most `maxDigest` notifications. */
  readonly options: Readonly<Record<'leaseMs' | 'retryMs' | 'turnMs' | 'maxDigest', number>>
}

/**
 * `done`: nothing is left, or a job exists for it. `busy`: another sender has the channel and knows of it. `lost`: this
 * turn lost the channel.
 */
export type PumpAnswer = 'done' | 'busy' | 'lost'

/** The most age of rules and plans: a subscription may end at any time. */
const freshMs = 1_000
/** Notifications of one window become due a few milliseconds apart, and must share their message. */
const stragglerMs = 250
/** The delay of the job for the rest, so that it starts after this turn has released the channel. */
const returnDelayMs = 20

export function pumpChannel(parts: PumpParts, channel: string, signal: AbortSignal): Promise<PumpAnswer> {
  return new Turn(parts, channel, signal).run()
}

/** Thrown when the store refused a write, to leave the turn from any depth. */
class ChannelLost extends Error {}

class Turn {
  readonly #parts: PumpParts
  readonly #ref: ChannelRef
  readonly #signal: AbortSignal
  readonly #startedAt = performance.now()
  #savedState: string | null = null
  #limiter: Limiter | undefined
  #stragglers = 0
  /** The notifications that this turn read, by id, until their ends are written. */
  readonly #records = new Map<string, { record: NotificationRecord; subscriber: Subscriber }>()
  /** How many requests the first message needs that exceeded the limit. */
  #needed = 1

  constructor(parts: PumpParts, channel: string, signal: AbortSignal) {
    this.#parts = parts
    this.#ref = { channel, token: createId() }
    this.#signal = signal
  }

  async run(): Promise<PumpAnswer> {
    const { store, options } = this.#parts
    const taken = await store.take({ ...this.#ref, leaseMs: options.leaseMs })
    if (!taken.taken) return 'busy'
    this.#savedState = taken.state
    try {
      for (;;) {
        const next = await this.#sendAll()
        if (next !== null) await this.#parts.comeBack(this.#ref.channel, next)
        const answer = await store.letGo(this.#ref)
        if (answer === 'released') return 'done'
        if (answer === 'lost') return 'lost'
      }
    } catch (error) {
      if (error instanceof ChannelLost) return 'lost'
      // Release the channel: the job is tried again soon and need not wait until the lease expires.
      await this.#giveUp()
      throw error
    }
  }

  /** Sends until no notification is due or allowed. Returns when to add a job for the rest. */
  async #sendAll(): Promise<{ at: number; delayMs: number } | null> {
    for (;;) {
      const askedAt = performance.now()
      const answer = await this.#parts.store.due(this.#ref, this.#parts.options.maxDigest)
      if (answer === undefined) throw new ChannelLost()
      const time = new StoreTime(answer.now, askedAt)
      if (answer.items.length === 0) return visit(answer.nextAt, answer.now)
      if (this.#isOver) return visit(answer.now + returnDelayMs, answer.now)
      const wait = await this.#sendDue(answer, time)
      if (wait !== undefined) return visit(wait, time.earliest())
    }
  }

  get #isOver(): boolean {
    return this.#signal.aborted || performance.now() - this.#startedAt > this.#parts.options.turnMs
  }

  /** Sends the notifications of one read. Returns an instant if nothing may be sent before it. */
  async #sendDue({ items, nextAt, now }: DueAnswer, time: StoreTime): Promise<number | undefined> {
    const { sendable, ends } = await this.#sort(items, time)
    const limiter = this.#limiter
    if (limiter === undefined || sendable.length === 0) {
      await this.#settle(ends, time)
      return undefined
    }
    if (nextAt !== null && (await this.#awaitStragglers(sendable, nextAt - now))) return undefined
    const plan = planMessages(sendable, limiter.free(time.earliest()), time.earliest())
    for (const { item, at } of plan.later) {
      const afterMs = Math.max(1, at - time.earliest())
      ends.push({ id: item.id, outcome: 'retry', afterMs, error: item.record.error, digestId: null })
    }
    const sent = await this.#sendPlan(plan.messages, ends, time, limiter)
    if (sent > 0 || plan.later.length > 0 || sendable.length < items.length) return undefined
    return Math.max(limiter.nextAt(time.earliest(), this.#needed), time.earliest() + 1)
  }

  /** Separates sendable notifications from the ends of the others. */
  async #sort(
    items: readonly NotificationRecord[],
    time: StoreTime,
  ): Promise<{ sendable: Sendable[]; ends: SendingEnd[] }> {
    const { tally, options } = this.#parts
    const subscribers = await this.#subscribersOf(items)
    const sendable: Sendable[] = []
    const ends: SendingEnd[] = []
    for (const record of items) {
      const subscriber = subscribers.get(record.subscriptionId)
      if (subscriber === undefined) {
        ends.push({ id: record.id, outcome: 'cancelled', error: null, digestId: null })
        tally.add('none', 'cancelled')
        continue
      }
      this.#records.set(record.id, { record, subscriber })
      const { channel, problem } = subscriber.stored
      if (channel === undefined) {
        if (isWaitingForKey(subscriber.stored)) ends.push(sealedEnd(record, problem!.message))
        else {
          ends.push(deadEnd(record.id, `the channel of its subscription cannot be used: ${problem!.message}`))
          tally.add('none', 'dead')
        }
      } else {
        const item = sendableOf(record, subscriber, channel, options.retryMs)
        this.#open(channel, time)
        const abandoned = item.isAbandoned ? judgeAbandoned(item) : undefined
        if (abandoned === undefined) sendable.push(item)
        else {
          ends.push(abandoned)
          tally.addEnd(channel.type, abandoned)
        }
      }
    }
    return { sendable, ends }
  }

  /** Reads the rules again for an unknown subscription: only the store can say that it has ended. */
  async #subscribersOf(items: readonly NotificationRecord[]): Promise<ReadonlyMap<string, Subscriber>> {
    const { rules } = this.#parts
    const { subscribers } = await rules.book(freshMs)
    if (items.every(({ subscriptionId }) => subscribers.has(subscriptionId))) return subscribers
    rules.drop()
    return (await rules.book()).subscribers
  }

  /** Creates the limiter. Subscriptions that share a channel share its robots, and so the limiter. */
  #open({ limits, robots }: Channel, time: StoreTime): void {
    this.#limiter ??= new Limiter({ limits, robots, state: this.#savedState, now: time.latest() })
  }

  /** Waits if notifications of the same window become due very soon. Returns true: read again. */
  async #awaitStragglers(sendable: readonly Sendable[], dueInMs: number): Promise<boolean> {
    const hasWindow = sendable.some(({ digestMs, attempt }) => digestMs !== null && attempt === 0)
    if (!hasWindow || dueInMs > stragglerMs || this.#stragglers >= 3) {
      this.#stragglers = 0
      return false
    }
    this.#stragglers++
    await pause(dueInMs + 5)
    return true
  }

  /** Sends as much of the plan as limits and time allow. Returns the number of messages. */
  async #sendPlan(
    messages: readonly (readonly Sendable[])[],
    before: readonly SendingEnd[],
    time: StoreTime,
    limiter: Limiter,
  ): Promise<number> {
    const { courier, tally, options } = this.#parts
    const writeMs = Math.ceil(options.leaseMs / 3)
    let ends = before
    let sent = 0
    this.#needed = 1
    // The first wave is always sent: otherwise a slow store would prevent all sending.
    while (sent < messages.length && (sent === 0 || (time.ageMs < freshMs && !this.#isOver))) {
      const wave = []
      const most = messages[sent]![0]!.channel.limits.concurrency
      let unfit = 0
      for (const members of messages.slice(sent, sent + most)) {
        const prepared = prepareMessage(members, { limiter, time, sendMs: courier.sendMs, writeMs })
        if (prepared.status === 'ready') wave.push(prepared)
        else if (prepared.status === 'unfit') {
          ends = [...ends, ...members.map(({ id }) => deadEnd(id, prepared.reason))]
          tally.add(members[0]!.channel.type, 'dead', members.length)
          unfit++
        } else {
          this.#needed = prepared.needed
          break
        }
      }
      if (wave.length === 0 && unfit === 0) break
      const begin = wave.flatMap(({ members }) =>
        members.map(({ id, isRepeat }) => ({ id, repeat: isRepeat })),
      )
      const spanMs = Math.max(0, ...wave.map(({ latestAt }) => latestAt - time.earliest()))
      await this.#write(ends, begin, time, Math.max(options.leaseMs, spanMs + writeMs))
      ends = await sendMessages(wave, { limiter, time, courier, tally })
      sent += wave.length + unfit
    }
    await this.#settle(ends, time)
    return sent
  }

  async #write(
    ends: readonly SendingEnd[],
    begin: readonly { id: string; repeat: boolean }[],
    time: StoreTime,
    leaseMs: number,
  ): Promise<void> {
    const state = this.#state(time)
    let written: boolean
    try {
      written = await this.#parts.store.proceed(this.#ref, { leaseMs, state, ends, begin })
    } catch (error) {
      // Try again to write the ends of sent messages: otherwise they would be sent twice.
      await this.#settle(ends, time)
      throw error
    }
    if (!written) throw new ChannelLost()
    this.#announce(ends)
  }

  /** Writes how tries ended, with several tries: a sent message without a written end is ambiguous. */
  async #settle(ends: readonly SendingEnd[], time: StoreTime): Promise<void> {
    if (ends.length === 0) return
    const { store, options } = this.#parts
    for (let attempt = 1; ; attempt++) {
      try {
        const step = { leaseMs: options.leaseMs, state: this.#state(time), ends, begin: [] }
        if (!(await store.proceed(this.#ref, step))) throw new ChannelLost()
        this.#announce(ends)
        return
      } catch (error) {
        if (error instanceof ChannelLost || attempt === 5) throw error
        await pause(50 * 2 ** attempt)
      }
    }
  }

  #announce(ends: readonly SendingEnd[]): void {
    for (const end of ends) {
      const looked = this.#records.get(end.id)
      this.#records.delete(end.id)
      const trouble = looked && troubleOf(end, looked.record, looked.subscriber)
      if (trouble === undefined) continue
      try {
        this.#parts.onTrouble?.(trouble)
      } catch {
        // A listener that throws must not stop the sending.
      }
    }
  }

  #state(time: StoreTime): string | null {
    return this.#limiter === undefined ? this.#savedState : this.#limiter.encode(time.earliest())
  }

  async #giveUp(): Promise<void> {
    try {
      for (let tries = 0; tries < 3; tries++)
        if ((await this.#parts.store.letGo(this.#ref)) !== 'wanted') return
    } catch {
      // The store fails, which is the reason for this call. The lease expires by itself.
    }
  }
}

function visit(at: number | null, now: number): { at: number; delayMs: number } | null {
  return at === null ? null : { at, delayMs: Math.max(0, at - now) }
}

function sendableOf(
  record: NotificationRecord,
  { record: { channel: text }, stored, digestMs, template, onAmbiguous, retryInMs }: Subscriber,
  channel: Channel,
  retryMs: number,
): Sendable {
  const code = codeOf(record.error)
  const isAbandoned = record.status === 'sending'
  const candidate: Candidate = {
    id: record.id,
    group: stored.plain ?? text,
    digestMs: digestMs > 0 ? digestMs : null,
    createdAt: record.createdAt,
    attempt: record.attempt,
    digestId: record.digestId,
    alone: code === sendingCodes.alone,
  }
  return {
    ...candidate,
    record,
    channel,
    template,
    onAmbiguous,
    retryMs: retryInMs > 0 ? retryInMs : retryMs,
    isRepeat: record.possibleRepeat || isAbandoned || code === sendingCodes.ambiguous,
    isAbandoned,
  }
}
