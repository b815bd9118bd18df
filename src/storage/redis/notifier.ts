import { randomBytes } from 'node:crypto'
import { Batcher } from '../../core/batcher.ts'
import { patientClock, within } from '../../core/clock.ts'
import type { BackendNotifier } from '../backend.ts'
import { type Client, LastingClient } from './client.ts'
import type { Connection } from './connection.ts'
import { channelOf } from './keys.ts'
import { createScript } from './scripts/script.ts'

/**
 * Notifiers over pub/sub: a channel for each topic of each namespace, subscribed while this process has listeners. A
 * wake-up reaches listeners of this process at once, and other processes together with all wake-ups of the same turn.
 * While a publish is under way, later wake-ups wait for it; equal ones are merged.
 */
export class RedisNotifiers {
  readonly #subscriber: Subscriber
  readonly #listeners = new Map<string, Set<() => void>>()
  /** Channels to be woken for others. */
  readonly #wakeUps: Batcher<string, void>
  #isClosed = false
  /** Our own wake-ups come back to us; they were told already. */
  readonly #self = randomBytes(6).toString('hex')

  constructor(url: string, connection: Connection) {
    this.#wakeUps = new Batcher({
      maxItems: maxChannelsPerCall,
      mergesEqual: true,
      run: (channels) => this.#send(connection, channels),
    })
    this.#subscriber = new Subscriber(url, {
      heard: (channel, sender) => {
        if (sender !== this.#self) this.#tell(channel)
      },
      // Between asking the store and being heard here something may have been woken.
      listening: (channels) => {
        for (const channel of channels) this.#tell(channel)
      },
    })
  }

  /** The notifier of a namespace; all that are asked for are the same one. */
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
    this.#tell(channel)
    // A wake-up may be lost: its listeners poll as well.
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
    // Wrap `heard`, so that the same function may listen twice and stop once.
    const mine = () => heard()
    for (const channel of channels) {
      const others = this.#listeners.get(channel)
      if (others) others.add(mine)
      else {
        this.#listeners.set(channel, new Set([mine]))
        this.#subscriber.want(channel)
      }
    }
    return () => {
      for (const channel of channels) {
        const others = this.#listeners.get(channel)
        if (!others?.delete(mine) || others.size > 0) continue
        this.#listeners.delete(channel)
        this.#subscriber.drop(channel)
      }
    }
  }

  #tell(channel: string): void {
    const listeners = this.#listeners.get(channel)
    if (listeners) for (const heard of [...listeners]) heard()
  }
}

/** Wakes the channels given after the sender's own name. */
const wakeScript = createScript(`
for i = 2, #ARGV do redis.call('PUBLISH', ARGV[i], ARGV[1]) end
`)

const maxChannelsPerCall = 200
const maxPendingChannels = 10_000

/** What a subscriber tells. */
interface SubscriberEvents {
  heard(channel: string, message: string): void
  /** From now on these are heard; what was said before was not. */
  listening(channels: readonly string[]): void
}

/**
 * The one connection that listens, for all channels that are wanted; opened when the first is. When it is lost it is
 * opened anew and listens to all of them again. That it still works is asked every 10 s.
 */
class Subscriber {
  readonly #lasting: LastingClient
  readonly #events: SubscriberEvents
  /** What should be listened to, and what the server has been asked for. */
  readonly #wanted = new Set<string>()
  readonly #asked = new Set<string>()
  /** Wanted or dropped since the server was last asked. */
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

  /** What is wanted and dropped in one turn is asked for together, and not at all when it comes to nothing. */
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

  /** Asks for what is wanted and not asked for, and the other way round. Answers come in the order of the asking. */
  #catchUp(client: Client): void {
    const changed = [...this.#changed]
    this.#changed.clear()
    const fresh = changed.filter((channel) => this.#wanted.has(channel) && !this.#asked.has(channel))
    const stale = changed.filter((channel) => !this.#wanted.has(channel) && this.#asked.has(channel))
    for (const channel of fresh) this.#asked.add(channel)
    for (const channel of stale) this.#asked.delete(channel)
    for (let from = 0; from < stale.length; from += channelsAtOnce)
      void this.#say(client, () => client.unsubscribe(stale.slice(from, from + channelsAtOnce)))
    for (let from = 0; from < fresh.length; from += channelsAtOnce) {
      const channels = fresh.slice(from, from + channelsAtOnce)
      void this.#say(client, async () => {
        await client.subscribe(channels, this.#heard)
        this.#events.listening(channels)
      })
    }
  }

  readonly #heard = (message: string, channel: string): void => this.#events.heard(channel, message)

  /** What is not answered in time will not be: the connection is only half there. */
  async #say(client: Client, ask: () => Promise<unknown>): Promise<void> {
    const lost = () => this.#lasting.lost(client)
    await within(answerMs, ask(), lost, patientClock).catch(lost)
  }
}

const answerMs = 10_000
const channelsAtOnce = 500
