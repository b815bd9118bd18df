import { type Clock, systemClock } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import type { Dispatch } from '../../../dispatch/index.ts'
import { cancelTopic, type JobsNotifier, queueTopic } from '../../../jobs/index.ts'
import type { LockEvent, Locks, WatchOptions } from '../../../locks/index.ts'
import type { Feed, FeedEvent, FeedReader } from '../call.ts'

/** Why the signal of a feed aborts. Created once: an error for each of a thousand readers would cost as much as sending. */
const readerGone: SignalboxError = new SignalboxError('closed', 'The reader of this stream has gone.')

/**
 * A feed whose events are generated for each reader: `follow` yields them, from where the reader was. The stream ends after the
 * last event, or with the error that `follow` throws. The signal aborts when the reader leaves; `reasonOf` says why.
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
 * The changes of a wait queue, for one reader: the events of `locks.watch`, each with its id. A reader that waits in the
 * wait queue keeps its position by reading. The stream ends after the last event there can be; one whose server goes away is
 * told when to come again, and its lease is left as it was.
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

/** What happens to one task, for one reader: from the present state to the end, after which the stream ends too. */
export function createTasksFeed(dispatch: Pick<Dispatch, 'watch'>, taskId: string): Feed {
  return createReaderFeed(async function* (_lastEventId, signal) {
    for await (const { status, ...data } of dispatch.watch(taskId, { signal })) yield { type: status, data }
  })
}

/**
 * The hints for remote workers of these queues: `ready { queue }` when a queue's notifier woke its listeners, `cancel {}`
 * when a running job has a cancellation request. Hints have no ids, are merged to one in 50 ms each, and may be lost. The
 * first event is `open {}`; every wake-up after it is heard.
 *
 * However many readers a notifier has, each of its topics is listened to once.
 */
export function createHintsFeed(
  notifier: Pick<JobsNotifier, 'listen'>,
  queues: readonly string[],
  { mergeMs = 50, clock = systemClock }: HintsFeedOptions = {},
): Feed {
  const topics = new Map(queues.map((queue) => [queueTopic(queue), readyEvent(queue)]))
  topics.set(cancelTopic, cancelEvent)
  const lines = linesOf(notifier)

  return {
    open(_lastEventId, reader) {
      const joined: HintLine[] = []
      const leave = () => {
        for (const line of joined) if (line.leave(reader)) lines.delete(line.topic)
      }
      try {
        for (const [topic, event] of topics) {
          const line = lines.get(topic) ?? new HintLine(topic, event, mergeMs, clock)
          line.join(reader, notifier)
          lines.set(topic, line)
          joined.push(line)
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

export interface HintsFeedOptions {
  /** Within so long, wake-ups of a topic become one hint. @default 50 */
  readonly mergeMs?: number
  readonly clock?: Clock
}

const openEvent: FeedEvent = { type: 'open', data: {}, text: '{}' }
const cancelEvent: FeedEvent = { type: 'cancel', data: {}, text: '{}' }

function readyEvent(queue: string): FeedEvent {
  const data = { queue }
  return { type: 'ready', data, text: JSON.stringify(data) }
}

/** The lines of each notifier by topic, for as long as the notifier is there; a topic is here only while it has readers. */
const linesByNotifier = new WeakMap<object, Map<string, HintLine>>()

function linesOf(notifier: object): Map<string, HintLine> {
  const known = linesByNotifier.get(notifier)
  if (known) return known
  const lines = new Map<string, HintLine>()
  linesByNotifier.set(notifier, lines)
  return lines
}

/** Everyone who hears one topic. */
class HintLine {
  readonly topic: string
  readonly #event: FeedEvent
  readonly #mergeMs: number
  readonly #clock: Clock
  readonly #readers = new Set<FeedReader>()
  #unlisten: (() => void) | undefined
  /** Told less than mergeMs ago, or being told: until that is over, wake-ups are only remembered. */
  #isResting = false
  #rangAgain = false
  #timer: unknown

  constructor(topic: string, event: FeedEvent, mergeMs: number, clock: Clock) {
    this.topic = topic
    this.#event = event
    this.#mergeMs = mergeMs
    this.#clock = clock
  }

  join(reader: FeedReader, notifier: Pick<JobsNotifier, 'listen'>): void {
    this.#unlisten ??= notifier.listen([this.topic], () => this.#heard())
    this.#readers.add(reader)
  }

  /** Answers whether it was the last reader. */
  leave(reader: FeedReader): boolean {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return false
    this.#unlisten?.()
    this.#unlisten = undefined
    this.#clock.clearTimeout(this.#timer)
    return true
  }

  #heard(): void {
    if (this.#isResting) this.#rangAgain = true
    else void this.#tell()
  }

  async #tell(): Promise<void> {
    this.#isResting = true
    this.#rangAgain = false
    await tellEach(this.#readers, (reader) => reader.send(this.#event))
    if (this.#readers.size === 0) return
    this.#timer = this.#clock.setTimeout(() => this.#rest(), this.#mergeMs)
    ;(this.#timer as { unref?(): void }).unref?.()
  }

  /** The rest is over. */
  #rest(): void {
    this.#isResting = false
    if (this.#rangAgain) void this.#tell()
  }
}

/** How many are called before others get their turn: calling 10,000 in one go blocks the process for a fifth of a second. */
const atOnce = 200

/** Calls `tell` for every member, in slices; a member that leaves meanwhile is skipped. */
export async function tellEach<Member>(
  audience: Iterable<Member>,
  tell: (member: Member) => void,
): Promise<void> {
  let count = 0
  for (const member of audience) {
    tell(member)
    if (++count % atOnce === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}
