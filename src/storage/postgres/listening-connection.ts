import { Client, type ClientConfig } from 'pg'

/** What the listening connection reports. */
export interface ListeningEvents {
  heard(channel: string, payload: string): void
  /** The connection listens to these channels from now on. It missed all earlier notifications since it was lost. */
  listens(channels: Iterable<string>): void
  /** The connection could not be opened, `times` times in a row. */
  failed(times: number): void
}

/**
 * The connection that listens to all wanted channels. It opens with the first channel. When it is lost, it opens again
 * and listens to all of them. Every 15 s it checks that the server still answers.
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

  /** Whether the connection works: a connection that went silent is found within 25 s. */
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
    if (this.#wanted.delete(channel) && this.#client) this.#send(this.#client, `UNLISTEN ${channel}`)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#retry)
    clearInterval(this.#ping)
    this.#wanted.clear()
    const client = this.#client
    this.#client = undefined
    if (client) destroy(client)
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
    const requested = new Set(this.#wanted)
    try {
      await client.connect()
      await client.query([...requested].map((channel) => `LISTEN ${channel}`).join('; '))
    } catch (error) {
      destroy(client)
      throw error
    }
    if (this.#closed) {
      destroy(client)
      return
    }
    // Listening alone must not keep the process alive.
    ;(client as unknown as { unref(): void }).unref()
    this.#client = client
    this.#ping = setInterval(() => this.#send(client, 'SELECT 1'), 15_000)
    this.#ping.unref()
    // Channels may have been added or dropped while the connection opened.
    for (const channel of this.#wanted) if (!requested.has(channel)) this.#listen(client, channel)
    for (const channel of requested) if (!this.#wanted.has(channel)) this.#send(client, `UNLISTEN ${channel}`)
    this.#failures = 0
    this.#events.listens(requested)
  }

  #listen(client: Client, channel: string): void {
    this.#send(client, `LISTEN ${channel}`, () => this.#events.listens([channel]))
  }

  /** The server executes statements in order, so the last one about a channel counts. */
  #send(client: Client, text: string, done: () => void = () => undefined): void {
    client.query(text).then(done, () => this.#lost(client))
  }

  #lost(client: Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#ping)
    destroy(client)
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

/** Destroys the socket without waiting: the server may not answer. */
function destroy(client: Client): void {
  client.end().catch(() => undefined)
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
}
