import type { BackendNotifier } from './backend.ts'
import { Listeners } from './listeners.ts'

/**
 * Notifiers whose wake-ups stay in this process, for engines that cannot notify other processes of a commit: these poll
 * (`traits.remoteWakeUps` is false). A listener hears wake-ups in a microtask, after the code that woke it: a caller
 * that adds jobs in a loop wakes its listeners once.
 */
export class LocalNotifiers {
  /** By namespace and topic. */
  readonly #listeners = new Listeners()
  #due = new Set<() => void>()

  /**
   * The notifier of a namespace. No other namespace hears its wake-ups. All notifiers of a namespace share their
   * listeners.
   */
  within(namespace: string): BackendNotifier {
    const topicKey = (topic: string) => JSON.stringify([namespace, topic])
    return {
      wake: (topic) => this.#wake(topicKey(topic)),
      listen: (topics, heard) => this.#listeners.listen(topics.map(topicKey), heard),
    }
  }

  /** Removes all listeners. */
  silence(): void {
    this.#listeners.clear()
  }

  #wake(key: string): void {
    for (const heard of this.#listeners.of(key)) {
      if (this.#due.size === 0) queueMicrotask(() => this.#deliver())
      this.#due.add(heard)
    }
  }

  #deliver(): void {
    const now = this.#due
    this.#due = new Set()
    for (const heard of now) if (this.#listeners.has(heard)) heard()
  }
}
