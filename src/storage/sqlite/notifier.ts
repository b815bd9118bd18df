import type { BackendNotifier } from '../backend.ts'
import { Listeners } from '../listeners.ts'
import type { Watch } from './connection/data-version.ts'
import { closed } from './connection/failures.ts'

/**
 * Wake-ups reach listeners of this process at once. A wake-up costs nothing for listeners of other topics. Other
 * processes send no wake-ups: when one of them has committed, this notifier wakes every listener, whatever its topics.
 */
export class SqliteNotifier {
  readonly #watch: Watch
  readonly #listeners = new Listeners()
  #closed = false

  constructor(watch: Watch) {
    this.#watch = watch
  }

  /** The notifier of one namespace. Topics of different namespaces never mix. */
  within(namespace: string): BackendNotifier {
    // The length marks the end of the namespace, so each pair of namespace and topic has its own text.
    const prefix = `${namespace.length}:${namespace}:`
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
    this.#closed = true
    this.#listeners.clear()
    this.#watch.stop()
  }

  #wake(topic: string): void {
    if (this.#closed) throw closed()
    this.#listeners.wake(topic)
  }

  #listen(topics: readonly string[], heard: () => void): () => void {
    if (this.#closed) throw closed()
    if (this.#listeners.size === 0) this.#watch.start(() => this.#listeners.wakeAll())
    const stop = this.#listeners.listen(topics, heard)
    return () => {
      const before = this.#listeners.size
      stop()
      if (before > 0 && this.#listeners.size === 0) this.#watch.stop()
    }
  }
}
