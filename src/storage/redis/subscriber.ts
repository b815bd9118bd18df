import { type Client, hangUp, openClient } from './client.ts'

/** What an ear tells. */
export interface EarEvents {
  heard(channel: string, message: string): void
  /** From now on these are heard; what was said before was not. */
  listening(channels: readonly string[]): void
}

/**
 * The one connection that listens, for all channels that are wanted; opened when the first is. When it is lost it is
 * opened anew and listens to all of them again. That it still works is asked every 10 s.
 */
export class Ear {
  readonly #url: string
  readonly #events: EarEvents
  /** What should be listened to, and what the server has been asked for. */
  readonly #wanted = new Set<string>()
  readonly #asked = new Set<string>()
  /** Wanted or dropped since the server was last asked. */
  readonly #changed = new Set<string>()
  #client: Client | undefined
  #isConnecting = false
  #isScheduled = false
  #retry: NodeJS.Timeout | undefined
  #ping: NodeJS.Timeout | undefined
  #failures = 0
  #isClosed = false

  constructor(url: string, events: EarEvents) {
    this.#url = url
    this.#events = events
  }

  want(channel: string): void {
    if (this.#isClosed) return
    this.#wanted.add(channel)
    this.#changed.add(channel)
    this.#schedule()
  }

  drop(channel: string): void {
    this.#wanted.delete(channel)
    this.#changed.add(channel)
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    clearInterval(this.#ping)
    this.#wanted.clear()
    this.#changed.clear()
    if (this.#client) hangUp(this.#client)
    this.#client = undefined
  }

  /** What is wanted and dropped in one turn is asked for together, and not at all when it comes to nothing. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      if (this.#client) this.#catchUp(this.#client)
      else this.#open()
    })
  }

  #open(): void {
    if (this.#isClosed || this.#isConnecting || this.#retry !== undefined || this.#wanted.size === 0) return
    this.#isConnecting = true
    openClient(
      this.#url,
      async () => undefined,
      (client) => this.#lost(client),
    )
      .then(
        (client) => this.#opened(client),
        () => this.#tryLater(),
      )
      .finally(() => {
        this.#isConnecting = false
      })
  }

  #opened(client: Client): void {
    if (this.#isClosed) {
      hangUp(client)
      return
    }
    this.#client = client
    this.#failures = 0
    this.#asked.clear()
    for (const channel of this.#wanted) this.#changed.add(channel)
    this.#ping = setInterval(() => this.#say(client, () => client.ping()), pingMs)
    this.#ping.unref()
    this.#catchUp(client)
  }

  /** Asks for what is wanted and not asked for, and the other way round. Answers come in the order of the asking. */
  #catchUp(client: Client): void {
    const changed = [...this.#changed]
    this.#changed.clear()
    const fresh = changed.filter((channel) => this.#wanted.has(channel) && !this.#asked.has(channel))
    const stale = changed.filter((channel) => !this.#wanted.has(channel) && this.#asked.has(channel))
    for (const channel of fresh) this.#asked.add(channel)
    for (const channel of stale) this.#asked.delete(channel)
    for (let from = 0; from < stale.length; from += channelsAtOnce)
      this.#say(client, () => client.unsubscribe(stale.slice(from, from + channelsAtOnce)))
    for (let from = 0; from < fresh.length; from += channelsAtOnce) {
      const channels = fresh.slice(from, from + channelsAtOnce)
      this.#say(client, async () => {
        await client.subscribe(channels, this.#heard)
        this.#events.listening(channels)
      })
    }
  }

  readonly #heard = (message: string, channel: string): void => this.#events.heard(channel, message)

  /** What is not answered in time will not be: the connection is only half there. */
  #say(client: Client, ask: () => Promise<unknown>): void {
    const timer = setTimeout(() => this.#lost(client), answerMs)
    timer.unref()
    ask()
      .catch(() => this.#lost(client))
      .finally(() => clearTimeout(timer))
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#ping)
    hangUp(client)
    this.#tryLater()
  }

  #tryLater(): void {
    if (this.#isClosed) return
    this.#failures++
    const ms = Math.min(50 * 2 ** this.#failures, 5_000) * (0.75 + Math.random() / 2)
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#open()
    }, ms)
    this.#retry.unref()
  }
}

const pingMs = 10_000
const answerMs = 10_000
const channelsAtOnce = 500
