import { randomBytes } from 'node:crypto'
import type { BackendBell } from '../backend.ts'
import type { Connection } from './connection.ts'
import { channelOf } from './keys.ts'
import { ringScript } from './scripts/looks.ts'
import { Ear } from './subscriber.ts'

/**
 * Bells over pub/sub: a channel for each topic of each namespace, listened to while somebody here does. A ring is told
 * in this process at once, and to others together with what else was rung in the same turn. Rings that would be sent
 * while others are under way wait for those, and one of several alike is enough.
 */
export class RedisBells {
  readonly #connection: Connection
  readonly #ear: Ear
  readonly #listeners = new Map<string, Set<() => void>>()
  /** Channels to be rung for others. */
  readonly #rung = new Set<string>()
  #isRinging = false
  #isClosed = false
  /** Our own rings come back to us; they were told already. */
  readonly #self = randomBytes(6).toString('hex')

  constructor(url: string, connection: Connection) {
    this.#connection = connection
    this.#ear = new Ear(url, {
      heard: (channel, ringer) => {
        if (ringer !== this.#self) this.#tell(channel)
      },
      // Between asking the store and being heard here something may have been rung.
      listening: (channels) => {
        for (const channel of channels) this.#tell(channel)
      },
    })
  }

  /** The bell of a namespace; all that are asked for are the same one. */
  within(namespace: string): BackendBell {
    const prefix = channelOf(namespace, '')
    return {
      ring: (topic) => this.#ring(prefix + topic),
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
    this.#rung.clear()
  }

  #ring(channel: string): void {
    if (this.#isClosed) return
    this.#tell(channel)
    // A ring may be lost: whoever depends on it polls.
    if (this.#rung.size < mostRung) this.#rung.add(channel)
    if (this.#isRinging) return
    this.#isRinging = true
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    while (this.#rung.size > 0 && !this.#isClosed) {
      const channels = [...this.#rung].slice(0, rungAtOnce)
      for (const channel of channels) this.#rung.delete(channel)
      const args = [this.#self, ...channels]
      await this.#connection.run(ringScript, [], args, args).catch(() => undefined)
    }
    this.#isRinging = false
  }

  #listen(channels: readonly string[], heard: () => void): () => void {
    if (this.#isClosed) return () => undefined
    // A function of its own, so that the same `heard` may listen twice and stop once.
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

const rungAtOnce = 200
const mostRung = 10_000
