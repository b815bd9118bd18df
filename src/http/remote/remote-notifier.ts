import { SignalboxError } from '../../core/errors.ts'
import type { JobsNotifier } from '../../jobs/index.ts'
import { type Client, jobEvents, type StreamEvent } from '../client/index.ts'

/**
 * Hears what the server says to workers: one stream for all who listen in this process, however many they are. It is
 * opened anew when the set of queues changes, and at each opening everybody is called once, because wake-ups may have been
 * missed in between. A wake-up made here is heard here; the server sends its own wake-ups for what is written there.
 *
 * It only saves time: polling finds everything, too. A stream that is refused leaves polling as it was, and is tried again a while later.
 */
export class RemoteNotifier implements JobsNotifier {
  readonly #client: Pick<Client, 'stream'>
  readonly #listeners = new Set<Listener>()
  #stream: AbortController | undefined
  /** The queues of the stream, as it was asked for; undefined when there is none. */
  #asked: string | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  constructor(client: Pick<Client, 'stream'>) {
    this.#client = client
  }

  wake(topic: string): void {
    this.#call((listener) => listener.topics.has(topic))
  }

  listen(topics: readonly string[], heard: () => void): () => void {
    if (this.#isClosed) throw new SignalboxError('closed', 'This box was closed; open another to listen.')
    const listener: Listener = { topics: new Set(topics), heard }
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

  /** Workers that start together, and one that listens to several things, come to one change. */
  #adjustSoon(ms: number): void {
    if (this.#isClosed || this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#adjust()
    }, ms)
    // A process that has nothing else to do need not wait for it.
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  #adjust(): void {
    const wanted = this.#listeners.size === 0 ? undefined : queuesOf(this.#listeners)
    if (wanted === this.#asked) return
    this.#end()
    if (wanted !== undefined) void this.#open(wanted)
  }

  #end(): void {
    this.#stream?.abort()
    this.#stream = undefined
    this.#asked = undefined
  }

  async #open(queues: string): Promise<void> {
    const controller = new AbortController()
    this.#stream = controller
    this.#asked = queues
    const isCurrent = () => this.#stream === controller
    try {
      await this.#client.stream(jobEvents, {
        query: queues === '' ? {} : { queues },
        signal: controller.signal,
        onOpen: () => this.#call(isCurrent),
        onEvent: (event) => this.#hear(event),
      })
    } catch {
      // Refused for good: the token, or a server that has no such stream. Whoever polls will be told the same.
      if (!isCurrent()) return
      this.#end()
      this.#adjustSoon(refusedMs * (0.5 + Math.random()))
    }
  }

  #hear({ type, data }: StreamEvent): void {
    const { queue } = (data ?? {}) as { queue?: unknown }
    if (type === 'cancel') this.wake(cancelTopic)
    else if (type === 'ready' && typeof queue === 'string') this.wake(queueTopic + queue)
  }

  #call(isMeant: (listener: Listener) => boolean): void {
    // A copy: whoever hears may stop listening, or start anew, which must not be heard in the same wake-up.
    for (const listener of [...this.#listeners]) if (isMeant(listener)) listener.heard()
  }
}

interface Listener {
  readonly topics: ReadonlySet<string>
  readonly heard: () => void
}

/** Topics as jobs name them. */
const queueTopic = 'jobs:'
const cancelTopic = 'jobs.cancel'

const settleMs = 20
const refusedMs = 60_000
/** The most that a server takes of names; those beyond it are left to polling. */
const maxLength = 8_192

/** The queues that somebody listens to, as the query has them; '' when nobody means a queue. */
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
