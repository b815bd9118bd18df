import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createLoop, type Loop, type StepContext } from '../../../core/loop.ts'
import { createNotifier, type Notifier } from '../../../core/notifier.ts'
import { type Jobs, type JobsNotifier, type QueueStats, queueTopic } from '../../../jobs/index.ts'
import { maxEventLength } from '../../contract/index.ts'
import type { Feed, FeedEvent, FeedReader } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { tellEach } from './watch-feeds.ts'

/**
 * The numbers of all queues for operators, as one event whenever one of them changed. One reading of the store serves
 * every reader, and without readers there is none.
 *
 * A wake-up of a queue's notifier brings the next reading forward, to a second after the last at the earliest; without one it
 * comes after two. A reader gets the present state first. Where the store was not read just now it waits for the
 * reading, and when the store is in trouble it is told so, once, and gets the state when that is over.
 *
 * Each event is the whole state, so a reader that comes again needs the last one only: nothing when it has that, else
 * `reset` and the present state.
 */
export function createQueuesFeed(
  jobs: Pick<Jobs, 'stats'>,
  notifier: Pick<JobsNotifier, 'listen'>,
  options: QueuesFeedOptions = {},
): Feed & AsyncDisposable {
  return new QueuesFeed(jobs, notifier, options)
}

/** How often the queues are looked at. */
export interface QueuesFeedOptions {
  /** How long after a reading the next comes, unless a wake-up comes. @default 2_000 */
  readonly pollMs?: number
  /** How long after a reading the next may come. @default 1_000 */
  readonly leastMs?: number
  readonly clock?: Clock
}

const backoff = { baseMs: 500, maxMs: 5_000 }
const watchdogMs = 15_000
/** Leaves room for the event's other lines. */
const maxTextLength = maxEventLength - 1_024

class QueuesFeed implements Feed, AsyncDisposable {
  readonly #jobs: Pick<Jobs, 'stats'>
  readonly #notifier: Pick<JobsNotifier, 'listen'>
  readonly #clock: Clock
  readonly #pollMs: number
  readonly #leastMs: number
  readonly #readers = new Map<FeedReader, Reading>()
  readonly #wakeUp: Notifier = createNotifier()
  #loop: Loop | undefined
  #queues: readonly string[] = []
  #unlisten: (() => void) | undefined
  /** When the last reading began, and when the last that succeeded had ended. */
  #triedAt = Number.NEGATIVE_INFINITY
  #readAt = Number.NEGATIVE_INFINITY
  #state: StateEvent | undefined
  #trouble: FeedEvent | undefined
  #isClosed = false

  constructor(
    jobs: Pick<Jobs, 'stats'>,
    notifier: Pick<JobsNotifier, 'listen'>,
    { pollMs = 2_000, leastMs = 1_000, clock = systemClock }: QueuesFeedOptions,
  ) {
    this.#jobs = jobs
    this.#notifier = notifier
    this.#pollMs = pollMs
    this.#leastMs = leastMs
    this.#clock = clock
  }

  open(lastEventId: string | undefined, reader: FeedReader): () => void {
    if (this.#isClosed) {
      reader.fail(new SignalboxError('draining', 'This server is shutting down. Open the stream again.'))
      return () => {}
    }
    this.#readers.set(reader, { lastEventId, told: undefined })
    const isOld = this.#clock.now() - this.#readAt > 2 * this.#pollMs
    this.#bring(reader, this.#trouble ?? (isOld ? undefined : this.#state))
    this.#loop ??= this.#start()
    return () => {
      this.#readers.delete(reader)
      if (this.#readers.size === 0) void this.#stop()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#readers.clear()
    await this.#stop()
  }

  #start(): Loop {
    this.#listen(this.#queues)
    const loop = createLoop({
      name: 'queues feed',
      step: (context) => this.#step(context),
      notifier: this.#wakeUp,
      idleMs: this.#pollMs,
      backoff,
      watchdogMs,
      clock: this.#clock,
    })
    loop.events.on('stalled', () =>
      this.#tellTrouble(
        new SignalboxError('store_unavailable', 'The store does not answer. The counts shown are old.'),
      ),
    )
    return loop
  }

  async #stop(): Promise<void> {
    const loop = this.#loop
    this.#loop = undefined
    // No reader is left that saw the error, and the next reading will show whether it lasts.
    this.#trouble = undefined
    this.#unlisten?.()
    this.#unlisten = undefined
    await loop?.stop({ graceMs: 1_000 })
  }

  async #step({ signal, progress }: StepContext): Promise<void> {
    const earlyMs = this.#triedAt + this.#leastMs - this.#clock.now()
    if (earlyMs > 0) await createNotifier().wait({ timeoutMs: earlyMs, signal, clock: this.#clock })
    // Whatever was woken until now, the reading that begins will show.
    await this.#wakeUp.wait({ timeoutMs: 0 })
    this.#triedAt = this.#clock.now()
    try {
      const items = await this.#jobs.stats()
      if (signal.aborted) return
      progress()
      this.#readAt = this.#clock.now()
      await this.#tell(items.toSorted(byQueue))
    } catch (error) {
      if (!signal.aborted) await this.#tellTrouble(asSignalboxError(error))
      throw error
    }
  }

  async #tell(items: readonly QueueStats[]): Promise<void> {
    this.#listen(items.map(({ queue }) => queue))
    const data = { items }
    const text = JSON.stringify(data)
    if (text.length > maxTextLength) {
      await this.#tellTrouble(tooLarge(items.length))
      return
    }
    // After trouble also when nothing changed: it says that the trouble is over.
    if (this.#state?.text !== text || this.#trouble !== undefined) {
      const id = Math.max((this.#state?.id ?? 0) + 1, Date.now() * 1_000 + Math.floor(Math.random() * 1_000))
      this.#state = { id, type: 'queues', data, text }
    }
    this.#trouble = undefined
    await this.#tellReaders()
  }

  async #tellTrouble({ code, message }: SignalboxError): Promise<void> {
    if (this.#trouble !== undefined) return
    this.#trouble = { type: 'error', data: { code, message } }
    await this.#tellReaders()
  }

  /** Telling many takes several turns of the event loop. What is no longer the news by then is not told. */
  #tellReaders(): Promise<void> {
    const news = this.#news
    return tellEach(this.#readers.keys(), (reader) => {
      if (news === this.#news) this.#bring(reader, news)
    })
  }

  get #news(): FeedEvent | undefined {
    return this.#trouble ?? this.#state
  }

  /** Gives a reader the trouble or the present state, unless it was told that already. */
  #bring(reader: FeedReader, news: FeedEvent | undefined): void {
    const reading = this.#readers.get(reader)!
    if (news === undefined || news === reading.told) return
    reading.told = news
    if (news.id !== undefined) {
      const { lastEventId } = reading
      reading.lastEventId = undefined
      if (lastEventId === String(news.id)) return
      if (lastEventId !== undefined) reader.send(reset)
    }
    reader.send(news)
  }

  #listen(queues: readonly string[]): void {
    const isSame =
      queues.length === this.#queues.length && queues.every((name, nth) => name === this.#queues[nth])
    if (isSame && this.#unlisten !== undefined) return
    this.#unlisten?.()
    this.#queues = queues
    try {
      this.#unlisten = this.#notifier.listen(queues.map(queueTopic), () => this.#wakeUp.wake())
    } catch {
      // A closed notifier wakes no listener; the next reading says what is the matter.
      this.#unlisten = undefined
    }
  }
}

/** What a reader has: what it was told last, and until it was told the state, what it says that it has. */
interface Reading {
  lastEventId: string | undefined
  told: FeedEvent | undefined
}

/** Its id rises, also over a restart. The digits behind the milliseconds tell it from the ids of other servers. */
interface StateEvent extends FeedEvent {
  readonly id: number
}

const reset: FeedEvent = { type: 'reset', data: {} }

function byQueue(a: QueueStats, b: QueueStats): number {
  return a.queue < b.queue ? -1 : 1
}

function tooLarge(count: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `There are ${count} queues, more than one event can show. Ask GET /v1/queues instead.`,
  )
}
