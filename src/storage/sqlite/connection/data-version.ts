import type { Connection } from './connection.ts'
import type { Reader } from './reader.ts'

/** Notices commits of other processes, from `start` to `stop`. */
export interface Watch {
  start(heard: () => void): void
  stop(): void
}

/** The interval of checks while there are listeners. */
const lookMs = 20

/**
 * Finds commits of other processes. SQLite's `data_version` shows them; this class reads it every 20 ms.
 *
 * A connection's `data_version` does not change for its own commits. To ignore the commits of this process, the class
 * always reads the connection of this process that locked the file last: changes there come from other processes. When
 * another connection takes the lock, the class reads the old one once more before it switches, so it misses nothing.
 * Successive commits on one connection need no read at all.
 */
export class DataVersion implements Watch {
  readonly #reader: Reader
  /** The connection that locked the file last. Undefined: the reader, which never writes and so shows all commits. */
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

  /** Call after a connection of this process locked the file. */
  began(connection: Connection): void {
    if (this.#timer === undefined || connection === this.#writer) return
    this.#look()
    this.#relyOn(connection)
  }

  #look(): void {
    // The connection was replaced after an error or a timeout. It may have missed commits, so report one.
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
      // The file is locked or gone. Listeners also poll, and their poll reports the error.
    }
  }

  #relyOn(connection: Connection | undefined): void {
    this.#writer = connection
    try {
      this.#seen = this.#readVersion()
    } catch {
      // As above. The numbers of two connections may be equal by chance, so store no number. The next successful check
      // then reports a commit, at worst one wake-up too many.
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
