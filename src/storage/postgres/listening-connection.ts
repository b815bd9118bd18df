import { Client, type ClientConfig } from 'pg'

/** What the listening connection reports. */
export interface ListeningEvents {
  heard(channel: string, payload: string): void
  /** From now on it hears these; what was woken before, since they were wanted or since it was lost, it did not hear. */
  listens(channels: Iterable<string>): void
  /** It could not be opened, that many times in a row. */
  failed(times: number): void
}

/**
 * The one connection that listens, for all channels that are wanted; opened when the first is. When it is lost it is
 * opened anew and listens to all of them again. That it still works is asked every 15 s.
 */
export class ListeningConnection {
  readonly #config: ClientConfig
  readonly #events: ListeningEvents
  readonly #wanted = new Set<string>()
  #client: Client | undefined
  #retry: NodeJS.Timeout | undefined
  #ping: NodeJS.Timeout | undefined
  #failures = 0
  #connecting = false
  #closed = false

  constructor(config: ClientConfig, events: ListeningEvents) {
    this.#config = config
    this.#events = events
  }

  /** Whether it hears: a connection that went silent is found within 25 s. */
  get isOpen(): boolean {
    return this.#client !== undefined
  }

  /** A channel's name goes into the statement as it is: it must be an identifier. */
  want(channel: string): void {
    if (this.#closed || this.#wanted.has(channel)) return
    this.#wanted.add(channel)
    if (this.#client) this.#listen(this.#client, channel)
    else this.#open()
  }

  drop(channel: string): void {
    if (this.#wanted.delete(channel) && this.#client) this.#say(this.#client, `UNLISTEN ${channel}`)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    clearInterval(this.#ping)
    this.#wanted.clear()
    const client = this.#client
    this.#client = undefined
    if (client) hangUp(client)
  }

  #open(): void {
    if (this.#client !== undefined || this.#connecting || this.#closed || this.#retry !== undefined) return
    if (this.#wanted.size === 0) return
    this.#connecting = true
    this.#connect()
      .catch(() => this.#tryLater())
      .finally(() => {
        this.#connecting = false
      })
  }

  async #connect(): Promise<void> {
    const client = new Client({ ...this.#config, pipeline: true, query_timeout: 10_000 })
    client.on('error', () => this.#lost(client))
    client.on('end', () => this.#lost(client))
    client.on('notification', ({ channel, payload = '' }) => this.#events.heard(channel, payload))
    const asked = new Set(this.#wanted)
    try {
      await client.connect()
      await client.query([...asked].map((channel) => `LISTEN ${channel}`).join('; '))
    } catch (error) {
      hangUp(client)
      throw error
    }
    if (this.#closed) {
      hangUp(client)
      return
    }
    // Listening must not keep a process alive that has nothing else to do.
    ;(client as unknown as { unref(): void }).unref()
    this.#client = client
    this.#ping = setInterval(() => this.#say(client, 'SELECT 1'), 15_000)
    this.#ping.unref()
    // What was wanted, or not any more, while it was being opened.
    for (const channel of this.#wanted) if (!asked.has(channel)) this.#listen(client, channel)
    for (const channel of asked) if (!this.#wanted.has(channel)) this.#say(client, `UNLISTEN ${channel}`)
    this.#failures = 0
    this.#events.listens(asked)
  }

  #listen(client: Client, channel: string): void {
    this.#say(client, `LISTEN ${channel}`, () => this.#events.listens([channel]))
  }

  /** Statements are answered in order, so the last one said of a channel is the one that counts. */
  #say(client: Client, text: string, done: () => void = () => undefined): void {
    client.query(text).then(done, () => this.#lost(client))
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#ping)
    hangUp(client)
    this.#tryLater()
  }

  #tryLater(): void {
    if (this.#closed) return
    this.#failures++
    this.#events.failed(this.#failures)
    const ms = Math.min(100 * 2 ** (this.#failures - 1), 10_000) * (0.75 + Math.random() / 2)
    this.#retry = setTimeout(() => {
      this.#retry = undefined
      this.#open()
    }, ms)
    this.#retry.unref()
  }
}

/** Not politely: a connection that does not answer would keep us waiting. */
function hangUp(client: Client): void {
  client.end().catch(() => undefined)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}
