import { type Alarm, createAlarm, type Notifier } from '../../core/notifier.ts'
import type { ClaimedRecord, ClaimRequest, JobStore, NewJob } from '../job-store.ts'
import type { ResolvedWorkerOptions } from './worker-options.ts'

export interface FetcherParts {
  readonly store: Pick<JobStore, 'claim'>
  readonly options: ResolvedWorkerOptions
  readonly notifier: Pick<Notifier, 'wake'>
  readonly load: () => Load
  readonly receive: (records: readonly ClaimedRecord[], sentAt: number) => void
}

export interface Load {
  /** Whether the worker may claim. */
  readonly isOpen: boolean
  readonly running: number
  readonly buffered: number
  readonly settling: number
}

/** The most jobs of one claim. */
const claimLimit = 500
/**
 * A queue's limits may admit more jobs as time passes, without a wake-up: the fetcher polls this often, for this long.
 */
const limitedPollMs = 100
const limitedForMs = 5_000
/** The fetcher claims nothing beyond this many unwritten verdicts: two full writes in flight and a third that waits. */
const maxSettling = 3_000

/**
 * Decides when to claim, and how much. After a full claim more jobs are likely, so the fetcher claims again as soon as
 * the worker has capacity. After a short claim it waits for a wake-up or the poll. A wake-up without capacity counts as
 * "more is likely". A claim in flight needs no wake-up: it checks the capacity again when it ends.
 */
export class Fetcher {
  readonly #parts: FetcherParts
  readonly #kinds: readonly string[]
  readonly #prefetch: Prefetch
  #moreIsLikely = false
  /** A claim is in flight or requested. */
  #isClaiming = false
  /** When a claim last brought a job of a queue with limits. */
  #limitedAt = Number.NEGATIVE_INFINITY
  readonly #alarm: Alarm
  /** Slots reserved for jobs that adders of this process are handing over. */
  #reservedSlots = 0
  /** The claim in flight. */
  #current: { readonly limit: number } | undefined

  constructor(parts: FetcherParts) {
    this.#parts = parts
    this.#kinds = [...parts.options.handlers.keys()]
    this.#prefetch = createPrefetch(parts.options)
    this.#alarm = createAlarm(() => parts.notifier.wake())
  }

  /** Cancels the poll of queues with limits. */
  close(): void {
    this.#alarm.clear()
  }

  /** More jobs are likely, and the worker has capacity. */
  get wantsMore(): boolean {
    return this.#moreIsLikely && this.#capacity() > 0
  }

  /** Sends one claim, as large as the capacity. */
  async step(): Promise<'more' | 'idle'> {
    this.#isClaiming = true
    try {
      await this.#claim()
      return this.wantsMore ? 'more' : 'idle'
    } finally {
      this.#isClaiming = false
    }
  }

  requestClaim(): void {
    if (!this.#isClaiming && this.wantsMore) {
      this.#isClaiming = true
      this.#parts.notifier.wake()
    }
  }

  /** Measures the pace of handlers. */
  handlerEnded(): void {
    this.#prefetch.handlerEnded()
  }

  /**
   * Offers an idle slot for a job that this process adds. Answers the claim that the adder sends along, and reserves
   * the slot until `handedOver`.
   */
  offer({ queue, kind }: NewJob): ClaimRequest | undefined {
    const { queues, concurrency, workerId, leaseMs, handlers } = this.#parts.options
    const { isOpen, running, buffered } = this.#parts.load()
    // Only an idle worker: a busy one must take jobs in the order of the queue.
    const isIdle = isOpen && !this.#isClaiming && !this.#moreIsLikely && buffered === 0
    const hasSlot = running + this.#reservedSlots < concurrency
    const handler = handlers.get(kind)
    // Batch handlers claim their jobs together.
    const isSingle = handler !== undefined && handler.batch === undefined
    if (!isIdle || !hasSlot || !queues.includes(queue) || !isSingle) return undefined
    this.#reservedSlots++
    return { queues: [queue], kinds: [kind], workerId, limit: 1, leaseMs }
  }

  handedOver(): void {
    this.#reservedSlots--
  }

  async #claim(): Promise<void> {
    // The loop may have replaced a claim that hung. Its jobs no longer count.
    this.#current = undefined
    const limit = Math.min(claimLimit, this.#capacity())
    if (limit <= 0) {
      // Remember the wake-up: the fetcher claims as soon as there are free slots.
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

  #capacity(): number {
    const { isOpen, running, buffered, settling } = this.#parts.load()
    if (!isOpen || settling > maxSettling) return 0
    // Jobs of the claim in flight count as buffered.
    return this.#prefetch.capacity(running + this.#reservedSlots, buffered + (this.#current?.limit ?? 0))
  }
}

/**
 * Decides how many jobs to claim. A round trip between jobs makes a queue slow. Many buffered jobs make it unfair, and
 * a crash delays all of them. So a worker buffers what it will probably start within a tenth of a second at its recent
 * pace: hundreds of microsecond jobs, but no hour-long job beyond its slots.
 *
 * The pace counts handlers that ended. The first jobs all start at once: if starts counted, a worker with ten slots
 * would buffer hundreds of hour-long jobs.
 */
export interface Prefetch {
  /** A handler freed its slot. */
  handlerEnded(): void
  /** How many more jobs to claim now. 0 while more than half of the buffer is full. */
  capacity(running: number, buffered: number): number
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

  /** A moving average over spans of at least 2 ms. It adopts a faster pace at once. */
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
    // No handler ended for a while: the pace is at most one in that time.
    return ended === 0 && spanMs > horizonMs / 4 ? Math.min(perMs, 1 / spanMs) : perMs
  }

  return {
    handlerEnded() {
      ended++
    },
    capacity(running, buffered) {
      const ahead = Math.min(prefetch, Math.ceil(pace() * horizonMs))
      const free = concurrency - running
      if (free <= 0 && (ahead === 0 || buffered > ahead / 2)) return 0
      if (buffered > ahead / 2 + free) return 0
      return Math.max(0, concurrency + ahead - running - buffered)
    },
  }
}
