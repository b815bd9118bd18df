import type { BackendBell } from '../backend.ts'
import type { Connection } from './connection.ts'
import { closed } from './fault.ts'
import type { Reader } from './reader.ts'

/**
 * Rings reach listeners of this process at once. Other processes send none: that they committed something shows in
 * SQLite's `data_version`, which is looked at every 20 ms while somebody listens, and then every listener is called,
 * whatever its topics.
 *
 * A connection's `data_version` stands still for its own commits. So that a worker is not woken by its own claims, the
 * one that is looked at is always that of ours which had the file's lock last: what it shows is others' doing. When
 * another of ours takes the lock, the last one is asked once more before the new one is relied on, so nothing falls
 * between the two, and commits that follow one another on one connection cost no look at all.
 */
export class SqliteBell implements BackendBell {
  readonly #reader: Reader
  readonly #listeners = new Map<() => void, readonly string[]>()
  /** Ours that had the lock last; undefined is the reader, which never writes and so counts for any. */
  #writer: Connection | undefined
  #seen = 0
  #news = false
  #timer: ReturnType<typeof setInterval> | undefined
  #closed = false

  constructor(reader: Reader) {
    this.#reader = reader
  }

  ring(topic: string): void {
    if (this.#closed) throw closed()
    for (const [heard, topics] of [...this.#listeners]) if (topics.includes(topic)) heard()
  }

  listen(topics: readonly string[], heard: () => void): () => void {
    if (this.#closed) throw closed()
    // A function of its own, so that one `heard` may listen twice and stop once.
    const listener = () => heard()
    this.#listeners.set(listener, topics)
    if (this.#timer === undefined) {
      this.#relyOn(undefined)
      this.#news = false
      this.#timer = setInterval(() => this.#poll(), 20)
      this.#timer.unref()
    }
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** This connection of ours just took the file's lock. */
  began(connection: Connection): void {
    if (this.#timer === undefined || connection === this.#writer) return
    this.#look()
    this.#relyOn(connection)
  }

  close(): void {
    this.#closed = true
    this.#listeners.clear()
    this.#stop()
  }

  #poll(): void {
    this.#look()
    if (!this.#news) return
    this.#news = false
    for (const heard of [...this.#listeners.keys()]) heard()
  }

  #look(): void {
    // Replaced after a fault or a time-out. What it has not seen by now it will not tell, so there may be news.
    if (this.#writer?.db.isOpen === false) {
      this.#relyOn(undefined)
      this.#news = true
      return
    }
    try {
      const version = this.#readVersion()
      if (version !== this.#seen) this.#news = true
      this.#seen = version
    } catch {
      // Locked or gone: whoever listens polls as well, and is told what is wrong when it does.
    }
  }

  #relyOn(connection: Connection | undefined): void {
    this.#writer = connection
    try {
      this.#seen = this.#readVersion()
    } catch {
      // As above; the next look that gets through finds another number, which is a ring too many at worst.
    }
  }

  #readVersion(): number {
    return this.#writer ? dataVersion(this.#writer) : this.#reader.readNow(dataVersion)
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function dataVersion(connection: Connection): number {
  return connection.get<{ data_version: number }>('PRAGMA data_version')!.data_version
}
