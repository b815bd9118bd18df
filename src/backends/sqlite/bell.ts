import type { BackendBell } from '../backend.ts'
import { closed } from './fault.ts'

/**
 * Rings reach listeners of this process at once. Other processes send none: that they committed something shows in
 * SQLite's `data_version`, which is looked at every 20 ms while somebody listens, and then every listener is called,
 * whatever its topics.
 *
 * Our own commits change `data_version` too. So that a worker is not woken by its own claims, the gate says when it
 * has the file's lock (what changed until then was others' doing) and when it has committed (what changed since was
 * ours). A neighbour's commit in the few microseconds between our commit and that look goes unheard, as a ring may.
 */
export class SqliteBell implements BackendBell {
  readonly #readVersion: () => number
  readonly #listeners = new Map<() => void, readonly string[]>()
  #seen = 0
  #news = false
  #timer: ReturnType<typeof setInterval> | undefined
  #closed = false

  constructor(readVersion: () => number) {
    this.#readVersion = readVersion
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
      this.#look()
      this.#news = false
      this.#timer = setInterval(() => this.#poll(), 20)
      this.#timer.unref()
    }
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#stop()
    }
  }

  /** The file's lock was just taken. */
  began(): void {
    if (this.#timer !== undefined) this.#look()
  }

  /** This process just committed. */
  committed(): void {
    if (this.#timer === undefined) return
    const heard = this.#news
    this.#look()
    this.#news = heard
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
    try {
      const version = this.#readVersion()
      if (version !== this.#seen) this.#news = true
      this.#seen = version
    } catch {
      // Locked or gone: whoever listens polls as well, and is told what is wrong when it does.
    }
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
