import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createLoop, type Loop, type StepContext } from '../../../core/loop.ts'
import { createNotifier, type Notifier } from '../../../core/notifier.ts'
import { type Jobs, type JobsNotifier, type QueueStats, queueTopic } from '../../../jobs/index.ts'
import { maxEventLength } from '../../contract/index.ts'
import type { Feed, FeedEvent, FeedReader } from '../call.ts'
import { asSignalboxError } from '../request/problem.ts'
import { createRing, type Ring } from './event-ring.ts'
import { tellEach } from './watch-feeds.ts'

/**
 * The numbers of all queues for operators, as one event whenever one of them changed. One reading of the store serves
 * every reader, and without readers there is none.
 *
 * A wake-up of a queue's notifier brings the next reading forward, to a second after the last at the earliest; without one it
 * comes after two. A reader gets the present state first. Where the store was not read just now it waits for the
 * reading, and when the store is in trouble it is told so, once, and gets the state when that is over.
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
  readonly ring?: Ring
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
  readonly #ring: Ring
  /** Those who have the present state, and those who wait for it. */
  readonly #readers = new Set<FeedReader>()
  readonly #waiting = new Map<FeedReader, Newcomer>()
  readonly #wakeUp: Notifier = createNotifier()
  #loop: Loop | undefined
  #queues: readonly string[] = []
  #unlisten: (() => void) | undefined
  /** When the last reading began, and when the last that succeeded had ended. */
  #triedAt = Number.NEGATIVE_INFINITY
  #readAt = Number.NEGATIVE_INFINITY
  #rounds: Promise<void> = Promise.resolve()
  #roundCount = 0
  #trouble: FeedEvent | undefined
  #isClosed = false

  constructor(
    jobs: Pick<Jobs, 'stats'>,
    notifier: Pick<JobsNotifier, 'listen'>,
    { pollMs = 2_000, leastMs = 1_000, clock = systemClock, ring = createRing() }: QueuesFeedOptions,
  ) {
    this.#jobs = jobs
    this.#notifier = notifier
    this.#pollMs = pollMs
    this.#leastMs = leastMs
    this.#clock = clock
    this.#ring = ring
  }

  open(lastEventId: string | undefined, reader: FeedReader): () => void {
    if (this.#isClosed) {
      reader.fail(new SignalboxError('draining', 'This server is shutting down. Open the stream again.'))
      return () => {}
    }
    this.#waiting.set(reader, { lastEventId, told: undefined })
    // A round that is under way comes to this reader too.
    if (this.#roundCount === 0) this.#admit(reader)
    this.#loop ??= this.#start()
    return () => {
      this.#readers.delete(reader)
      this.#waiting.delete(reader)
      if (this.#readers.size + this.#waiting.size === 0) void this.#stop()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#readers.clear()
    this.#waiting.clear()
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
    const isNews = this.#ring.last?.text !== text || this.#trouble !== undefined
    this.#trouble = undefined
    const event = isNews ? this.#ring.publish({ type: 'queues', data, text }) : undefined
    await this.#tellReaders(event)
  }

  async #tellTrouble({ code, message }: SignalboxError): Promise<void> {
    if (this.#trouble !== undefined) return
    this.#trouble = { type: 'error', data: { code, message } }
    await this.#tellReaders(this.#trouble)
  }

  /** Telling many takes several turns of the event loop; the next round begins when the last is over. */
  #tellReaders(event: FeedEvent | undefined): Promise<void> {
    this.#roundCount++
    this.#rounds = this.#rounds.then(async () => {
      if (event) await tellEach(this.#readers, (reader) => reader.send(event))
      await tellEach(this.#waiting.keys(), (reader) => this.#admit(reader))
      // From here on newcomers are admitted as they come; these came just before.
      if (--this.#roundCount === 0) for (const reader of this.#waiting.keys()) this.#admit(reader)
    })
    return this.#rounds
  }

  /** Gives a newcomer what there is: the trouble, or the present state when that is known. */
  #admit(reader: FeedReader): void {
    const newcomer = this.#waiting.get(reader)!
    if (this.#trouble !== undefined) {
      if (newcomer.told !== this.#trouble) reader.send(this.#trouble)
      newcomer.told = this.#trouble
      return
    }
    if (this.#clock.now() - this.#readAt > 2 * this.#pollMs) return
    this.#waiting.delete(reader)
    this.#readers.add(reader)
    this.#greet(reader, newcomer.lastEventId)
  }

  /** The present state, or all that came after what the reader has. */
  #greet(reader: FeedReader, lastEventId: string | undefined): void {
    if (lastEventId === undefined) {
      reader.send(this.#ring.last!)
      return
    }
    const missed = this.#ring.since(lastEventId)
    if (missed === undefined) {
      reader.send(reset)
      reader.send(this.#ring.lastAfter(lastEventId)!)
      return
    }
    for (const event of missed) reader.send(event)
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

interface Newcomer {
  readonly lastEventId: string | undefined
  told: FeedEvent | undefined
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
