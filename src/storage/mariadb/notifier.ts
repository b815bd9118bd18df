import type { BackendNotifier } from '../backend.ts'

/**
 * MariaDB cannot notify other sessions of a commit, so wake-ups stay in this process and other processes poll
 * (`traits.remoteWakeUps` is false). A listener hears a wake-up in a later turn of the event loop, once a turn: a caller
 * that wakes inside a loop of adds wakes its listeners once.
 */
export class MariadbNotifiers {
  /** By namespace and topic. */
  readonly #listeners = new Map<string, Set<() => void>>()
  #due = new Set<() => void>()

  /** The notifier of a namespace, whose wake-ups no other namespace hears; all that are asked for are the same one. */
  within(namespace: string): BackendNotifier {
    const placeOf = (topic: string) => JSON.stringify([namespace, topic])
    return {
      wake: (topic) => this.#wake(placeOf(topic)),
      listen: (topics, heard) => this.#listen(topics.map(placeOf), heard),
    }
  }

  #wake(place: string): void {
    const those = this.#listeners.get(place)
    if (those === undefined) return
    if (this.#due.size === 0) queueMicrotask(() => this.#deliver())
    for (const heard of those) this.#due.add(heard)
  }

  #deliver(): void {
    const now = this.#due
    this.#due = new Set()
    for (const heard of now) heard()
  }

  #listen(places: readonly string[], heard: () => void): () => void {
    // A function of our own, so that the same `heard` given twice is two listeners.
    const mine = () => heard()
    for (const place of places) {
      const those = this.#listeners.get(place) ?? new Set()
      this.#listeners.set(place, those.add(mine))
    }
    return () => {
      this.#due.delete(mine)
      for (const place of places) {
        const those = this.#listeners.get(place)
        those?.delete(mine)
        if (those?.size === 0) this.#listeners.delete(place)
      }
    }
  }
}
