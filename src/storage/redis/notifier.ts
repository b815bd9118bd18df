import { randomBytes } from 'node:crypto'
import { Batcher } from '../../core/batcher.ts'
import { patientClock, within } from '../../core/clock.ts'
import type { BackendNotifier } from '../backend.ts'
import { Listeners } from '../listeners.ts'
import { type Client, LastingClient } from './client.ts'
import type { Connection } from './connection.ts'
import { channelOf } from './keys.ts'
import { createScript } from './scripts/script.ts'

/**
 * Notifiers over pub/sub: one channel for each topic of each namespace, subscribed while this process has listeners. A
 * wake-up reaches listeners of this process at once, and other processes together with all wake-ups of the same turn.
 * While a publish is in flight, later wake-ups wait for it; equal ones are merged.
 */
export class RedisNotifiers {
  readonly #subscriber: Subscriber
  readonly #listeners = new Listeners()
  /** The channels to wake in other processes. */
  readonly #wakeUps: Batcher<string, void>
  #isClosed = false
  /** This process receives its own wake-ups too, and ignores them: its listeners were already woken. */
  readonly #self = randomBytes(6).toString('hex')

  constructor(url: string, connection: Connection) {
    this.#wakeUps = new Batcher({
      maxItems: maxChannelsPerCall,
      mergesEqual: true,
      run: (channels) => this.#send(connection, channels),
    })
    this.#subscriber = new Subscriber(url, {
      heard: (channel, sender) => {
        if (sender !== this.#self) this.#listeners.wake(channel)
      },
      // Between a listener's read of the store and its subscription a wake-up may have been missed.
      listening: (channels) => {
        for (const channel of channels) this.#listeners.wake(channel)
      },
    })
  }

  /** The notifier of a namespace. All notifiers of a namespace share their listeners. */
  within(namespace: string): BackendNotifier {
    const prefix = channelOf(namespace, '')
    return {
      wake: (topic) => this.#wake(prefix + topic),
      listen: (topics, heard) =>
        this.#listen(
          topics.map((topic) => prefix + topic),
          heard,
        ),
    }
  }

  close(): void {
    this.#isClosed = true
    this.#subscriber.close()
    this.#listeners.clear()
  }

  #wake(channel: string): void {
    if (this.#isClosed) return
    this.#listeners.wake(channel)
    // Losing a wake-up is harmless, because its listeners also poll.
    if (this.#wakeUps.waitingCount < maxPendingChannels) void this.#wakeUps.add(channel)
  }

  /** Never rejects. */
  async #send(connection: Connection, channels: readonly string[]): Promise<readonly void[]> {
    const args = [this.#self, ...channels]
    if (!this.#isClosed) await connection.run(wakeScript, [], args, args).catch(() => undefined)
    return []
  }

  #listen(channels: readonly string[], heard: () => void): () => void {
    if (this.#isClosed) return () => undefined
    const isUnheard = (channel: string) => this.#listeners.of(channel).length === 0
    for (const channel of channels) if (isUnheard(channel)) this.#subscriber.want(channel)
    const stop = this.#listeners.listen(channels, heard)
    return () => {
      stop()
      for (const channel of channels) if (isUnheard(channel)) this.#subscriber.drop(channel)
    }
  }
}

/** Wakes the channels that follow the sender's own name. */
const wakeScript = createScript(`
for i = 2, #ARGV do redis.call('PUBLISH', ARGV[i], ARGV[1]) end
`)

const maxChannelsPerCall = 200
const maxPendingChannels = 10_000

/** The events of a subscriber. */
interface SubscriberEvents {
  heard(channel: string, message: string): void
  /** These channels are subscribed now. Earlier messages were missed. */
  listening(channels: readonly string[]): void
}

/**
 * The only subscribed connection, for all channels. It opens with the first channel. If it is lost, the subscriber
 * opens another and subscribes to all channels again. Every 10 s it checks that the connection works.
 */
class Subscriber {
  readonly #lasting: LastingClient
  readonly #events: SubscriberEvents
  /** The wanted channels, and the channels that the server was asked for. */
  readonly #wanted = new Set<string>()
  readonly #asked = new Set<string>()
  /** Channels that were added or dropped since the last request to the server. */
  readonly #changed = new Set<string>()
  #isOpen = false
  #isScheduled = false

  constructor(url: string, events: SubscriberEvents) {
    this.#events = events
    this.#lasting = new LastingClient(url, {
      greet: async () => undefined,
      opened: (client) => {
        this.#asked.clear()
        for (const channel of this.#wanted) this.#changed.add(channel)
        this.#catchUp(client)
      },
      isWell: (client) => client.ping().then(() => true),
      watchMs: 10_000,
    })
  }

  want(channel: string): void {
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
    this.#wanted.clear()
    this.#changed.clear()
    this.#lasting.close()
  }

  /**
   * Channels that are added and dropped in one turn are requested together; changes that cancel out are not requested.
   */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      const { client } = this.#lasting
      if (client) this.#catchUp(client)
      else if (!this.#isOpen && this.#wanted.size > 0) {
        this.#isOpen = true
        this.#lasting.openSoon()
      }
    })
  }

  /** Subscribes to new channels and unsubscribes from dropped ones. Answers come in the order of the requests. */
  #catchUp(client: Client): void {
    const changed = [...this.#changed]
    this.#changed.clear()
    const fresh = changed.filter((channel) => this.#wanted.has(channel) && !this.#asked.has(channel))
    const stale = changed.filter((channel) => !this.#wanted.has(channel) && this.#asked.has(channel))
    for (const channel of fresh) this.#asked.add(channel)
    for (const channel of stale) this.#asked.delete(channel)
    for (let from = 0; from < stale.length; from += channelsAtOnce)
      void this.#request(client, () => client.unsubscribe(stale.slice(from, from + channelsAtOnce)))
    for (let from = 0; from < fresh.length; from += channelsAtOnce) {
      const channels = fresh.slice(from, from + channelsAtOnce)
      void this.#request(client, async () => {
        await client.subscribe(channels, this.#heard)
        this.#events.listening(channels)
      })
    }
  }

  readonly #heard = (message: string, channel: string): void => this.#events.heard(channel, message)

  /** A connection that does not answer in time is half open: give it up. */
  async #request(client: Client, ask: () => Promise<unknown>): Promise<void> {
    const lost = () => this.#lasting.lost(client)
    await within(answerMs, ask(), lost, patientClock).catch(lost)
  }
}

const answerMs = 10_000
const channelsAtOnce = 500
