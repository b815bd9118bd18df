import { randomBytes } from 'node:crypto'
import { Batcher } from '../../core/batcher.ts'
import type { BackendNotifier } from '../backend.ts'
import type { Connection } from './connection.ts'
import { channelOf } from './keys.ts'
import { wakeScript } from './scripts/looks.ts'
import { Ear } from './subscriber.ts'

/**
 * Notifiers over pub/sub: a channel for each topic of each namespace, subscribed while this process has listeners. A
 * wake-up reaches listeners of this process at once, and other processes together with all wake-ups of the same turn.
 * While a publish is under way, later wake-ups wait for it; equal ones are merged.
 */
export class RedisNotifiers {
  readonly #ear: Ear
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
    this.#ear = new Ear(url, {
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
    this.#ear.close()
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
        this.#ear.want(channel)
      }
    }
    return () => {
      for (const channel of channels) {
        const others = this.#listeners.get(channel)
        if (!others?.delete(mine) || others.size > 0) continue
        this.#listeners.delete(channel)
        this.#ear.drop(channel)
      }
    }
  }

  #tell(channel: string): void {
    const listeners = this.#listeners.get(channel)
    if (listeners) for (const heard of [...listeners]) heard()
  }
}

const maxChannelsPerCall = 200
const maxPendingChannels = 10_000
