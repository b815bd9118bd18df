import type { Notifier } from '../../core/notifier.ts'
import { type Alarm, createAlarm } from '../api/due-alarm.ts'
import type { ClaimedRecord, ClaimRequest, JobStore, NewJob } from '../job-store.ts'
import { createPrefetch, type Prefetch } from './prefetch.ts'
import type { ResolvedWorkerOptions } from './worker-options.ts'

/**
 * When to claim, and how much. A claim that came back full means that more is likely, and then the next is asked for as
 * soon as there is room; one that came short means waiting for a wake-up or the poll. A wake-up without room is remembered
 * as "more is likely". Each claim looks for room itself when it is done, so no wake-up is needed while one is under way.
 *
 * Where the store carries claims out in order and there is room for a whole one more, it is sent before the one under way
 * is answered: then the store is not idle while this process takes in what it got. Answers are taken in that order too.
 */
export interface FetcherParts {
  readonly store: Pick<JobStore, 'claim' | 'claimsInOrder'>
  readonly options: ResolvedWorkerOptions
  readonly notifier: Pick<Notifier, 'wake'>
  readonly load: () => Load
  readonly receive: (records: readonly ClaimedRecord[], sentAt: number) => void
}

export interface Load {
  /** Whether anything may be claimed at all. */
  readonly isOpen: boolean
  readonly running: number
  readonly buffered: number
  readonly settling: number
}

/** The most jobs of one claim. */
const claimLimit = 500
/** While a queue has limits, room may come by time alone: then it is looked for so often, for so long. */
const limitedPollMs = 100
const limitedForMs = 5_000
/** Verdicts not written yet, beyond which nothing new is claimed: two full writes are in flight and a third one waits. */
const maxSettling = 3_000

export class Fetcher {
  readonly #parts: FetcherParts
  readonly #kinds: readonly string[]
  readonly #prefetch: Prefetch
  #moreIsLikely = false
  /** A claim is under way or was asked for. */
  #isClaiming = false
  /** When a claim last brought a job of a queue with limits. */
  #limitedAt = Number.NEGATIVE_INFINITY
  readonly #alarm: Alarm
  /** Places kept for jobs that are being handed over. */
  #promised = 0
  /** The claim that a step waits for, and the one that was sent behind it, whose answer is for the next step. */
  #current: Sent | undefined
  #ahead: Sent | undefined

  constructor(parts: FetcherParts) {
    this.#parts = parts
    this.#kinds = [...parts.options.handlers.keys()]
    this.#prefetch = createPrefetch(parts.options)
    this.#alarm = createAlarm(() => parts.notifier.wake())
  }

  /** Claims nothing more by itself, and waits for what was sent ahead: those jobs are received like all others. */
  async close(): Promise<void> {
    this.#alarm.clear()
    await this.#receiveAhead()
  }

  /** More is likely, and there is room for it. */
  get wantsMore(): boolean {
    return this.#moreIsLikely && this.#room() > 0
  }

  /** One claim, as large as there is room for. */
  async step(): Promise<'more' | 'idle'> {
    this.#isClaiming = true
    try {
      await this.#claim()
      return this.#ahead !== undefined || this.wantsMore ? 'more' : 'idle'
    } finally {
      this.#isClaiming = false
    }
  }

  askForMore(): void {
    if (this.#isClaiming) this.#sendAhead()
    else if (this.wantsMore) {
      this.#isClaiming = true
      this.#parts.notifier.wake()
    }
  }

  /** A handler ended: what the pace is known by. */
  ended(): void {
    this.#prefetch.ended()
  }

  /** What to claim a job with that is to be handed over; a place is kept until `handedOver`. */
  offer({ queue, kind }: NewJob): ClaimRequest | undefined {
    const { queues, concurrency, workerId, leaseMs, handlers } = this.#parts.options
    const { isOpen, running, buffered } = this.#parts.load()
    // Only when it waits with nothing to do: else it takes its jobs in the order of the line.
    const isIdle = isOpen && !this.#isClaiming && !this.#moreIsLikely && buffered === 0
    const hasPlace = running + this.#promised < concurrency
    const handler = handlers.get(kind)
    // One of a batch does not go alone: there may be others to go with.
    const isSingle = handler !== undefined && handler.batch === undefined
    if (!isIdle || !hasPlace || !queues.includes(queue) || !isSingle) return undefined
    this.#promised++
    return { queues: [queue], kinds: [kind], workerId, limit: 1, leaseMs }
  }

  handedOver(): void {
    this.#promised--
  }

  async #claim(): Promise<void> {
    // The step before this one was given up. What was sent behind its claim is waited for no more than that one is.
    if (this.#current !== undefined) void this.#receiveAhead()
    this.#current = undefined
    const sent = this.#ahead ?? this.#send(Math.min(claimLimit, this.#room()))
    this.#ahead = undefined
    this.#current = sent
    if (sent === undefined) {
      // The wake-up is remembered: the fetcher claims as soon as there are free slots.
      this.#moreIsLikely = true
      return
    }
    this.#sendAhead()
    const { sentAt, limit } = sent
    let records: readonly ClaimedRecord[]
    try {
      records = await sent.answer
    } finally {
      if (this.#current === sent) this.#current = undefined
    }
    this.#moreIsLikely = records.length === limit
    if (records.some(({ limited }) => limited)) this.#limitedAt = sentAt
    if (!this.#moreIsLikely && sentAt - this.#limitedAt < limitedForMs) this.#alarm.set(limitedPollMs)
    this.#parts.receive(records, sentAt)
  }

  #send(limit: number): Sent | undefined {
    if (limit <= 0) return undefined
    const sentAt = performance.now()
    const { queues, workerId, leaseMs } = this.#parts.options
    const answer = this.#parts.store.claim({ queues, kinds: this.#kinds, workerId, limit, leaseMs })
    return { answer, limit, sentAt }
  }

  #sendAhead(): void {
    if (!this.#moreIsLikely || this.#ahead !== undefined || !this.#parts.store.claimsInOrder) return
    if (this.#room() < claimLimit) return
    this.#ahead = this.#send(claimLimit)
    // Its failure is the next step's.
    this.#ahead?.answer.catch(() => undefined)
  }

  async #receiveAhead(): Promise<void> {
    const ahead = this.#ahead
    if (ahead === undefined) return
    this.#ahead = undefined
    const records = await ahead.answer.catch(() => [])
    this.#parts.receive(records, ahead.sentAt)
  }

  #room(): number {
    const { isOpen, running, buffered, settling } = this.#parts.load()
    if (!isOpen || settling > maxSettling) return 0
    // What was asked for is as good as here.
    const asked = (this.#current?.limit ?? 0) + (this.#ahead?.limit ?? 0)
    return this.#prefetch.room(running + this.#promised, buffered + asked)
  }
}

/** A claim on its way. */
interface Sent {
  readonly answer: Promise<readonly ClaimedRecord[]>
  readonly limit: number
  readonly sentAt: number
}
