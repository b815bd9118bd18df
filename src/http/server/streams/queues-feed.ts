import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createLoop, type Loop, type StepContext } from '../../../core/loop.ts'
import { createNotifier, type Notifier } from '../../../core/notifier.ts'
import { type Jobs, type JobsNotifier, type QueueStats, queueTopic } from '../../../jobs/index.ts'
import { maxEventLength } from '../../contract/index.ts'
import type { Feed, FeedEvent, FeedReader } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { forEachSliced } from './watch-feeds.ts'

/**
 * The counts of all queues, for operators. The feed sends one event with all counts whenever one of them changes. It
 * reads the store once for all readers, and does not read it without readers.
 *
 * The feed reads the store every two seconds, and after a wake-up of a queue sooner, at most once a second. A new
 * reader gets the present state first; if the last read is too old, it waits for the next one. When the store fails,
 * each reader gets one `error` event, and the state again as soon as the store answers.
 *
 * Each event holds the whole state. So a reader that reconnects gets nothing if it has the last event, else `reset` and
 * the present state.
 */
export function createQueuesFeed(
  jobs: Pick<Jobs, 'stats'>,
  notifier: Pick<JobsNotifier, 'listen'>,
  options: QueuesFeedOptions = {},
): Feed & AsyncDisposable {
  return new QueuesFeed(jobs, notifier, options)
}

/** How often the feed reads the counts. */
export interface QueuesFeedOptions {
  /** The time between two reads without a wake-up. @default 2_000 */
  readonly pollMs?: number
  /** The shortest time between two reads. @default 1_000 */
  readonly minGapMs?: number
  readonly clock?: Clock
}

const backoff = { baseMs: 500, maxMs: 5_000 }
const watchdogMs = 15_000
/** Leaves space for the event's other lines. */
const maxTextLength = maxEventLength - 1_024

class QueuesFeed implements Feed, AsyncDisposable {
  readonly #jobs: Pick<Jobs, 'stats'>
  readonly #notifier: Pick<JobsNotifier, 'listen'>
  readonly #clock: Clock
  readonly #pollMs: number
  readonly #minGapMs: number
  readonly #readers = new Map<FeedReader, Received>()
  readonly #wakeUp: Notifier = createNotifier()
  #loop: Loop | undefined
  #queues: readonly string[] = []
  #unlisten: (() => void) | undefined
  /** When the last read began. */
  #triedAt = Number.NEGATIVE_INFINITY
  /** When the last successful read ended. */
  #readAt = Number.NEGATIVE_INFINITY
  #state: StateEvent | undefined
  #failure: FeedEvent | undefined
  #isClosed = false

  constructor(
    jobs: Pick<Jobs, 'stats'>,
    notifier: Pick<JobsNotifier, 'listen'>,
    { pollMs = 2_000, minGapMs = 1_000, clock = systemClock }: QueuesFeedOptions,
  ) {
    this.#jobs = jobs
    this.#notifier = notifier
    this.#pollMs = pollMs
    this.#minGapMs = minGapMs
    this.#clock = clock
  }

  open(lastEventId: string | undefined, reader: FeedReader): () => void {
    if (this.#isClosed) {
      reader.fail(new SignalboxError('draining', 'This server is shutting down. Open the stream again.'))
      return () => {}
    }
    this.#readers.set(reader, { lastEventId, lastSent: undefined })
    const isOld = this.#clock.now() - this.#readAt > 2 * this.#pollMs
    this.#sendOnce(reader, this.#failure ?? (isOld ? undefined : this.#state))
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
      this.#sendFailure(
        new SignalboxError('store_unavailable', 'The store does not answer. The counts shown are old.'),
      ),
    )
    return loop
  }

  async #stop(): Promise<void> {
    const loop = this.#loop
    this.#loop = undefined
    // No reader is left that got the error. The next read shows whether it lasts.
    this.#failure = undefined
    this.#unlisten?.()
    this.#unlisten = undefined
    await loop?.stop({ graceMs: 1_000 })
  }

  async #step({ signal, progress }: StepContext): Promise<void> {
    const earlyMs = this.#triedAt + this.#minGapMs - this.#clock.now()
    if (earlyMs > 0) await createNotifier().wait({ timeoutMs: earlyMs, signal, clock: this.#clock })
    // Clears earlier wake-ups: the read that begins now shows their changes.
    await this.#wakeUp.wait({ timeoutMs: 0 })
    this.#triedAt = this.#clock.now()
    try {
      const items = await this.#jobs.stats()
      if (signal.aborted) return
      progress()
      this.#readAt = this.#clock.now()
      await this.#publish(items.toSorted(byQueue))
    } catch (error) {
      if (!signal.aborted) await this.#sendFailure(asSignalboxError(error))
      throw error
    }
  }

  async #publish(items: readonly QueueStats[]): Promise<void> {
    this.#listen(items.map(({ queue }) => queue))
    const data = { items }
    const text = JSON.stringify(data)
    if (text.length > maxTextLength) {
      await this.#sendFailure(tooLarge(items.length))
      return
    }
    // After a failure the feed sends the state even if it is unchanged: this shows that the failure is over.
    if (this.#state?.text !== text || this.#failure !== undefined) {
      const id = Math.max((this.#state?.id ?? 0) + 1, Date.now() * 1_000 + Math.floor(Math.random() * 1_000))
      this.#state = { id, type: 'queues', data, text }
    }
    this.#failure = undefined
    await this.#sendToReaders()
  }

  async #sendFailure({ code, message }: SignalboxError): Promise<void> {
    if (this.#failure !== undefined) return
    this.#failure = { type: 'error', data: { code, message } }
    await this.#sendToReaders()
  }

  /** Sending to many readers takes several turns of the event loop. A newer event stops it. */
  #sendToReaders(): Promise<void> {
    const event = this.#latest
    return forEachSliced(this.#readers.keys(), (reader) => {
      if (event === this.#latest) this.#sendOnce(reader, event)
    })
  }

  get #latest(): FeedEvent | undefined {
    return this.#failure ?? this.#state
  }

  /** Sends the failure or the present state to a reader, unless the reader has it. */
  #sendOnce(reader: FeedReader, event: FeedEvent | undefined): void {
    const received = this.#readers.get(reader)!
    if (event === undefined || event === received.lastSent) return
    received.lastSent = event
    if (event.id !== undefined) {
      const { lastEventId } = received
      received.lastEventId = undefined
      if (lastEventId === String(event.id)) return
      if (lastEventId !== undefined) reader.send(reset)
    }
    reader.send(event)
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
      // A closed notifier wakes no listener. The next read reports the error.
      this.#unlisten = undefined
    }
  }
}

/** What a reader has received. */
interface Received {
  /** The id that the reader sent when it connected; undefined after its first state event. */
  lastEventId: string | undefined
  lastSent: FeedEvent | undefined
}

/** Its id rises, even across a restart. The random digits after the milliseconds keep ids of two servers apart. */
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
    `One event cannot hold the counts of ${count} queues. Use GET /v1/queues instead.`,
  )
}
