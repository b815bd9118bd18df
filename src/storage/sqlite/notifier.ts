import type { BackendNotifier } from '../backend.ts'
import type { Watch } from './connection/data-version.ts'
import { closed } from './connection/failures.ts'

/**
 * Wake-ups reach listeners of this process at once, and cost only what those who listen to the topic cost. Other processes
 * send none: when they have committed something, every listener is called, whatever its topics.
 */
export class SqliteNotifier {
  readonly #watch: Watch
  readonly #listeners = new Set<() => void>()
  readonly #byTopic = new Map<string, Set<() => void>>()
  #closed = false

  constructor(watch: Watch) {
    this.#watch = watch
  }

  /** The notifier of one namespace; topics of different ones never meet. */
  within(namespace: string): BackendNotifier {
    // The length says where the name ends, so no two pairs of namespace and topic give the same text.
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
    this.#byTopic.clear()
    this.#watch.stop()
  }

  #wake(topic: string): void {
    if (this.#closed) throw closed()
    // Copy the set first: a listener may stop or start listening, and a new one must not hear this wake-up.
    for (const heard of [...(this.#byTopic.get(topic) ?? [])]) heard()
  }

  #listen(topics: readonly string[], heard: () => void): () => void {
    if (this.#closed) throw closed()
    // Wrap `heard`, so that one function may listen twice and stop once.
    const listener = () => heard()
    if (this.#listeners.size === 0) this.#watch.start(() => this.#wakeAll())
    this.#listeners.add(listener)
    for (const topic of topics) {
      const others = this.#byTopic.get(topic)
      if (others) others.add(listener)
      else this.#byTopic.set(topic, new Set([listener]))
    }
    return () => this.#unlisten(topics, listener)
  }

  #unlisten(topics: readonly string[], listener: () => void): void {
    if (!this.#listeners.delete(listener)) return
    for (const topic of topics) {
      const others = this.#byTopic.get(topic)
      others?.delete(listener)
      if (others?.size === 0) this.#byTopic.delete(topic)
    }
    if (this.#listeners.size === 0) this.#watch.stop()
  }

  #wakeAll(): void {
    for (const heard of [...this.#listeners]) heard()
  }
}
