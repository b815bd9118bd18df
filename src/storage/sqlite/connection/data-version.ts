import type { Connection } from './connection.ts'
import type { Reader } from './reader.ts'

/** Notices commits of other processes, from `start` to `stop`. */
export interface Watch {
  start(heard: () => void): void
  stop(): void
}

/** How often it checks while there are listeners. */
const lookMs = 20

/**
 * That another process committed something shows in SQLite's `data_version`, which is looked at every 20 ms.
 *
 * A connection's `data_version` stands still for its own commits. So that a worker is not woken by its own claims, the
 * one that is looked at is always that of ours which had the file's lock last: what it shows is others' doing. When
 * another of ours takes the lock, the last one is asked once more before the new one is relied on, so nothing falls
 * between the two, and commits that follow one another on one connection cost no look at all.
 */
export class DataVersion implements Watch {
  readonly #reader: Reader
  /** Ours that had the lock last; undefined is the reader, which never writes and so counts for any. */
  #writer: Connection | undefined
  #seen = 0
  #news = false
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(reader: Reader) {
    this.#reader = reader
  }

  start(heard: () => void): void {
    this.stop()
    this.#relyOn(undefined)
    this.#news = false
    this.#timer = setInterval(() => {
      this.#look()
      if (!this.#news) return
      this.#news = false
      heard()
    }, lookMs)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** This connection of ours just took the file's lock. */
  began(connection: Connection): void {
    if (this.#timer === undefined || connection === this.#writer) return
    this.#look()
    this.#relyOn(connection)
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
      // The file is locked or gone. Listeners poll as well, and their poll reports the error.
    }
  }

  #relyOn(connection: Connection | undefined): void {
    this.#writer = connection
    try {
      this.#seen = this.#readVersion()
    } catch {
      // As above. Numbers of two connections may be the same by chance, so no number will do: the next look that gets
      // through finds news, which is a wake-up too many at worst.
      this.#seen = Number.NaN
    }
  }

  #readVersion(): number {
    return this.#writer ? readVersion(this.#writer) : this.#reader.readNow(readVersion)
  }
}

function readVersion(connection: Connection): number {
  return connection.get<{ data_version: number }>('PRAGMA data_version')!.data_version
}
