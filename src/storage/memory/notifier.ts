import type { BackendNotifier } from '../backend.ts'
import { Listeners } from '../listeners.ts'

/** The notifiers of this process. `silence` removes all listeners. */
export interface MemoryNotifier {
  /** The notifier of one namespace. Namespaces have separate topics. */
  within(namespace: string): BackendNotifier
  silence(): void
}

export function createMemoryNotifier(check: () => void): MemoryNotifier {
  const namespaces = new Map<string, Listeners>()
  return {
    within(namespace) {
      const listeners = namespaces.get(namespace) ?? new Listeners()
      namespaces.set(namespace, listeners)
      return {
        wake: (topic) => listeners.wake(topic),
        listen(topics, heard) {
          check()
          return listeners.listen(topics, heard)
        },
      }
    },
    silence() {
      for (const listeners of namespaces.values()) listeners.clear()
    },
  }
}
