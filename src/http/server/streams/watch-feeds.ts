import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import type { Dispatch } from '../../../dispatch/index.ts'
import { cancelTopic, type JobsNotifier, queueTopic } from '../../../jobs/index.ts'
import type { LockEvent, Locks, WatchOptions } from '../../../locks/index.ts'
import type { Feed, FeedEvent, FeedReader } from '../call.ts'

/**
 * The abort reason of a feed's signal. Shared: a new error for each of a thousand readers would cost as much as
 * sending.
 */
const readerGone: SignalboxError = new SignalboxError('closed', 'The reader of this stream has gone.')

/**
 * A feed that generates its events for each reader: `follow` yields the events after the reader's last one. The stream
 * ends after the last event, or with the error that `follow` throws. The signal aborts when the reader leaves;
 * `reasonOf` returns the abort reason.
 */
export function createReaderFeed(
  follow: (lastEventId: string | undefined, signal: AbortSignal) => AsyncIterable<FeedEvent>,
  reasonOf: () => SignalboxError = () => readerGone,
): Feed {
  return {
    open(lastEventId, reader) {
      const controller = new AbortController()
      const { signal } = controller
      const events = follow(lastEventId, signal)
      void (async () => {
        try {
          for await (const event of events) {
            if (signal.aborted) return
            reader.send(event)
          }
          if (!signal.aborted) reader.end?.()
        } catch (error) {
          if (!signal.aborted) reader.fail(error)
        }
      })()
      return () => controller.abort(reasonOf())
    },
  }
}

/**
 * The changes of a wait queue, for one reader: the events of `locks.watch`, each with its id. A reader that waits in
 * the wait queue keeps its position while its stream is open. The stream ends after the last possible event. When the
 * server shuts down, the reader gets a reconnect time and keeps its lease.
 */
export function createLocksFeed(
  locks: Pick<Locks, 'watch'>,
  options: Omit<WatchOptions, 'signal' | 'lastEventId'>,
  isDraining: () => boolean,
): Feed {
  const draining = () => new SignalboxError('draining', 'This server is shutting down.')
  const events = (lastEventId: string | undefined, signal: AbortSignal) =>
    lockEvents(locks.watch({ ...options, lastEventId: readEventId(lastEventId), signal }))
  return createReaderFeed(events, () => (isDraining() ? draining() : readerGone))
}

async function* lockEvents(events: AsyncIterable<LockEvent>): AsyncGenerator<FeedEvent> {
  for await (const { id, type, ...data } of events) yield { id, type, data }
}

/** The number in a Last-Event-ID; 0 when there is none. */
export function readEventId(lastEventId: string | undefined): number {
  if (lastEventId === undefined) return 0
  if (/^\d{1,16}$/.test(lastEventId) && Number(lastEventId) <= Number.MAX_SAFE_INTEGER)
    return Number(lastEventId)
  throw new SignalboxError(
    'invalid_argument',
    `The header Last-Event-ID must be the id of an event of this stream, a whole number, not ${show(lastEventId)}.`,
  )
}

/** The states of one task, for one reader, from the present state to the final one. Then the stream ends. */
export function createTasksFeed(dispatch: Pick<Dispatch, 'watch'>, taskId: string): Feed {
  return createReaderFeed(async function* (_lastEventId, signal) {
    for await (const { status, ...data } of dispatch.watch(taskId, { signal })) yield { type: status, data }
  })
}

/**
 * Hints for remote workers of these queues: `ready { queue }` when a queue's notifier wakes its listeners, `cancel {}`
 * when a running job has a cancellation request. Hints have no ids and may be lost. Equal hints within 50 ms become
 * one. The first event is `open {}`; the feed listens to every wake-up after it.
 *
 * The feeds of a notifier listen to each topic once, for all readers.
 */
export function createHintsFeed(
  notifier: Pick<JobsNotifier, 'listen'>,
  queues: readonly string[],
  { mergeMs = 50, clock = systemClock }: HintsFeedOptions = {},
): Feed {
  const topics = new Map(queues.map((queue) => [queueTopic(queue), readyEvent(queue)]))
  topics.set(cancelTopic, cancelEvent)
  const watched = topicsOf(notifier)

  return {
    open(_lastEventId, reader) {
      const joined: HintTopic[] = []
      const leave = () => {
        for (const one of joined) if (one.leave(reader)) watched.delete(one.topic)
      }
      try {
        for (const [topic, event] of topics) {
          const one = watched.get(topic) ?? new HintTopic(topic, event, mergeMs, clock)
          one.join(reader, notifier)
          watched.set(topic, one)
          joined.push(one)
        }
      } catch (error) {
        leave()
        reader.fail(error)
        return () => {}
      }
      reader.send(openEvent)
      return leave
    },
  }
}

interface HintsFeedOptions {
  /** Wake-ups of a topic within this time become one hint. @default 50 */
  readonly mergeMs?: number
  readonly clock?: Clock
}

const openEvent: FeedEvent = { type: 'open', data: {}, text: '{}' }
const cancelEvent: FeedEvent = { type: 'cancel', data: {}, text: '{}' }

function readyEvent(queue: string): FeedEvent {
  const data = { queue }
  return { type: 'ready', data, text: JSON.stringify(data) }
}

/** The topics of each notifier that have readers. The map does not keep the notifier alive. */
const topicsByNotifier = new WeakMap<object, Map<string, HintTopic>>()

function topicsOf(notifier: object): Map<string, HintTopic> {
  const known = topicsByNotifier.get(notifier)
  if (known) return known
  const topics = new Map<string, HintTopic>()
  topicsByNotifier.set(notifier, topics)
  return topics
}

/** The readers of one topic. */
class HintTopic {
  readonly topic: string
  readonly #event: FeedEvent
  readonly #mergeMs: number
  readonly #clock: Clock
  readonly #readers = new Set<FeedReader>()
  #unlisten: (() => void) | undefined
  /** A hint is being sent, or was sent less than mergeMs ago: a wake-up only sets `#wokeAgain`. */
  #isResting = false
  #wokeAgain = false
  #timer: unknown

  constructor(topic: string, event: FeedEvent, mergeMs: number, clock: Clock) {
    this.topic = topic
    this.#event = event
    this.#mergeMs = mergeMs
    this.#clock = clock
  }

  join(reader: FeedReader, notifier: Pick<JobsNotifier, 'listen'>): void {
    this.#unlisten ??= notifier.listen([this.topic], () => this.#onWakeUp())
    this.#readers.add(reader)
  }

  /** Returns whether this was the last reader. */
  leave(reader: FeedReader): boolean {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return false
    this.#unlisten?.()
    this.#unlisten = undefined
    this.#clock.clearTimeout(this.#timer)
    return true
  }

  #onWakeUp(): void {
    if (this.#isResting) this.#wokeAgain = true
    else void this.#send()
  }

  async #send(): Promise<void> {
    this.#isResting = true
    this.#wokeAgain = false
    await forEachSliced(this.#readers, (reader) => reader.send(this.#event))
    if (this.#readers.size === 0) return
    this.#timer = this.#clock.setTimeout(() => this.#endRest(), this.#mergeMs)
    ;(this.#timer as { unref?(): void }).unref?.()
  }

  #endRest(): void {
    this.#isResting = false
    if (this.#wokeAgain) void this.#send()
  }
}

/** Members per turn of the event loop: 10,000 calls in one turn would block the process for a fifth of a second. */
const sliceSize = 200

/** Calls `act` for every member, in slices. Skips members that leave meanwhile. */
export async function forEachSliced<Member>(
  members: Iterable<Member>,
  act: (member: Member) => void,
): Promise<void> {
  let count = 0
  for (const member of members) {
    act(member)
    if (++count % sliceSize === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}
