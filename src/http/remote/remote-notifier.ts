import { SignalboxError } from '../../core/errors.ts'
import type { JobsNotifier } from '../../jobs/index.ts'
import { type Client, jobEvents, type StreamEvent } from '../client/index.ts'

/**
 * Receives the wake-ups of the server, by one stream for all listeners of this process. The notifier reopens the stream
 * when the set of queues changes. Each opening wakes all listeners once, because they may have missed wake-ups in
 * between. A local wake-up stays local; the server sends its own.
 *
 * Polling guarantees that workers find jobs; wake-ups only make it faster. After a refusal, the notifier tries again
 * later.
 */
export class RemoteNotifier implements JobsNotifier {
  readonly #client: Pick<Client, 'stream'>
  readonly #listeners = new Set<Listener>()
  #stream: AbortController | undefined
  /** The queues of the open stream; undefined without a stream. */
  #streamQueues: string | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  constructor(client: Pick<Client, 'stream'>) {
    this.#client = client
  }

  wake(topic: string): void {
    this.#call((listener) => listener.topics.has(topic))
  }

  listen(topics: readonly string[], onWakeUp: () => void): () => void {
    if (this.#isClosed) throw new SignalboxError('closed', 'This box is closed. Open another one.')
    const listener: Listener = { topics: new Set(topics), onWakeUp }
    this.#listeners.add(listener)
    this.#adjustSoon(settleMs)
    return () => {
      this.#listeners.delete(listener)
      this.#adjustSoon(settleMs)
    }
  }

  close(): void {
    this.#isClosed = true
    this.#listeners.clear()
    clearTimeout(this.#timer)
    this.#end()
  }

  /** Waits a moment, so that workers that start together cause one change. */
  #adjustSoon(ms: number): void {
    if (this.#isClosed || this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#adjust()
    }, ms)
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  #adjust(): void {
    const wanted = this.#listeners.size === 0 ? undefined : queuesOf(this.#listeners)
    if (wanted === this.#streamQueues) return
    this.#end()
    if (wanted !== undefined) void this.#open(wanted)
  }

  #end(): void {
    this.#stream?.abort()
    this.#stream = undefined
    this.#streamQueues = undefined
  }

  async #open(queues: string): Promise<void> {
    const controller = new AbortController()
    this.#stream = controller
    this.#streamQueues = queues
    const isCurrent = () => this.#stream === controller
    try {
      await this.#client.stream(jobEvents, {
        query: queues === '' ? {} : { queues },
        signal: controller.signal,
        onOpen: () => this.#call(isCurrent),
        onEvent: (event) => this.#receive(event),
      })
    } catch {
      // The server refused the stream: the token is not valid, or the route is unknown. Polling reports the same error.
      if (!isCurrent()) return
      this.#end()
      this.#adjustSoon(refusedMs * (0.5 + Math.random()))
    }
  }

  #receive({ type, data }: StreamEvent): void {
    const { queue } = (data ?? {}) as { queue?: unknown }
    if (type === 'cancel') this.wake(cancelTopic)
    else if (type === 'ready' && typeof queue === 'string') this.wake(queueTopic + queue)
  }

  #call(matches: (listener: Listener) => boolean): void {
    // Iterates over a copy, because a listener may stop or start listening meanwhile.
    for (const listener of [...this.#listeners]) if (matches(listener)) listener.onWakeUp()
  }
}

interface Listener {
  readonly topics: ReadonlySet<string>
  readonly onWakeUp: () => void
}

/** Topics as jobs name them. */
const queueTopic = 'jobs:'
const cancelTopic = 'jobs.cancel'

const settleMs = 20
const refusedMs = 60_000
/** The longest list of names that a server accepts. Workers only poll the other queues. */
const maxLength = 8_192

/** The queues that have listeners, for the query; '' for none. */
function queuesOf(listeners: Iterable<Listener>): string {
  const queues = new Set<string>()
  for (const { topics } of listeners)
    for (const topic of topics) if (topic.startsWith(queueTopic)) queues.add(topic.slice(queueTopic.length))
  let text = ''
  for (const queue of [...queues].sort()) {
    const longer = `${text}${text && ','}${encodeURIComponent(queue)}`
    if (longer.length > maxLength) break
    text = longer
  }
  return text
}
