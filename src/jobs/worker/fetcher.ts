import { type Alarm, createAlarm, type Notifier } from '../../core/notifier.ts'
import type { ClaimedRecord, ClaimRequest, JobStore, NewJob } from '../job-store.ts'
import type { ResolvedWorkerOptions } from './worker-options.ts'

/**
 * When to claim, and how much. A claim that came back full means that more is likely, and then the next is asked for as
 * soon as there is room; one that came short means waiting for a wake-up or the poll. A wake-up without room is remembered
 * as "more is likely". Each claim looks for room itself when it is done, so no wake-up is needed while one is under way.
 */
export interface FetcherParts {
  readonly store: Pick<JobStore, 'claim'>
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
/** In a queue with limits, capacity may come back by time alone: the fetcher polls this often, for this long. */
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
  /** The claim that a step waits for. */
  #current: { readonly limit: number } | undefined

  constructor(parts: FetcherParts) {
    this.#parts = parts
    this.#kinds = [...parts.options.handlers.keys()]
    this.#prefetch = createPrefetch(parts.options)
    this.#alarm = createAlarm(() => parts.notifier.wake())
  }

  /** Claims nothing more by itself. */
  close(): void {
    this.#alarm.clear()
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
      return this.wantsMore ? 'more' : 'idle'
    } finally {
      this.#isClaiming = false
    }
  }

  askForMore(): void {
    if (!this.#isClaiming && this.wantsMore) {
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
    // Only an idle worker that waits for jobs: otherwise it takes jobs in the order of the queue.
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
    // A claim before this one that was not answered in time counts no more.
    this.#current = undefined
    const limit = Math.min(claimLimit, this.#room())
    if (limit <= 0) {
      // The wake-up is remembered: the fetcher claims as soon as there are free slots.
      this.#moreIsLikely = true
      return
    }
    const sentAt = performance.now()
    const { queues, workerId, leaseMs } = this.#parts.options
    let records: readonly ClaimedRecord[]
    const current = { limit }
    this.#current = current
    try {
      records = await this.#parts.store.claim({ queues, kinds: this.#kinds, workerId, limit, leaseMs })
    } finally {
      if (this.#current === current) this.#current = undefined
    }
    this.#moreIsLikely = records.length === limit
    if (records.some(({ limited }) => limited)) this.#limitedAt = sentAt
    if (!this.#moreIsLikely && sentAt - this.#limitedAt < limitedForMs) this.#alarm.set(limitedPollMs)
    this.#parts.receive(records, sentAt)
  }

  #room(): number {
    const { isOpen, running, buffered, settling } = this.#parts.load()
    if (!isOpen || settling > maxSettling) return 0
    // What was asked for is as good as here.
    return this.#prefetch.room(running + this.#promised, buffered + (this.#current?.limit ?? 0))
  }
}

/**
 * How many jobs to claim. Waiting for a round trip between jobs is what makes queues slow; holding many jobs is what
 * makes them unfair, and what a crash takes along. So a worker holds what it is likely to begin within a tenth of a
 * second at the pace it has shown lately: hundreds of jobs of a microsecond, none beyond its slots of an hour.
 *
 * The pace is that of handlers that ended. Counting those that began would take the first jobs, which all begin at
 * once, for a pace, and a worker of ten slots would sit on hundreds of jobs of an hour.
 */
export interface Prefetch {
  /** A handler came free of its job. */
  ended(): void
  /** How many more to claim now, given what runs and what waits; 0 while more than half of it is still there. */
  room(running: number, buffered: number): number
}

const horizonMs = 100

export function createPrefetch(
  limits: { readonly concurrency: number; readonly prefetch: number },
  now: () => number = () => performance.now(),
): Prefetch {
  const { concurrency, prefetch } = limits
  let ended = 0
  let since = now()
  let perMs = 0

  /** A running average over spans of at least a few milliseconds, that takes up a faster pace at once. */
  function pace(): number {
    const at = now()
    const spanMs = at - since
    if (spanMs >= 2 && ended > 0) {
      const fresh = ended / spanMs
      perMs = fresh > perMs ? fresh : (perMs + fresh) / 2
      ended = 0
      since = at
      return perMs
    }
    // None ended for longer than a claim takes: whatever the pace was, it is now at most one in that time.
    return ended === 0 && spanMs > horizonMs / 4 ? Math.min(perMs, 1 / spanMs) : perMs
  }

  return {
    ended() {
      ended++
    },
    room(running, buffered) {
      const ahead = Math.min(prefetch, Math.ceil(pace() * horizonMs))
      const free = concurrency - running
      if (free <= 0 && (ahead === 0 || buffered > ahead / 2)) return 0
      if (buffered > ahead / 2 + free) return 0
      return Math.max(0, concurrency + ahead - running - buffered)
    },
  }
}
