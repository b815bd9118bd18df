import type { BackendNotifier } from '../backend.ts'

/** The notifiers of this process alone; `silence` lets go of everyone who listens. */
export interface MemoryNotifier {
  /** The notifier of one namespace; topics of different ones never meet. */
  within(namespace: string): BackendNotifier
  silence(): void
}

export function createMemoryNotifier(check: () => void): MemoryNotifier {
  const namespaces = new Map<string, Map<string, Set<() => void>>>()
  return {
    within(namespace) {
      const listeners = namespaces.get(namespace) ?? new Map<string, Set<() => void>>()
      namespaces.set(namespace, listeners)
      return createNotifier(listeners, check)
    },
    silence() {
      for (const listeners of namespaces.values()) listeners.clear()
    },
  }
}

function createNotifier(listeners: Map<string, Set<() => void>>, check: () => void): BackendNotifier {
  return {
    wake(topic) {
      // A copy: a listener may stop, or start another, which must not get the same wake-up.
      for (const heard of [...(listeners.get(topic) ?? [])]) heard()
    },
    listen(topics, heard) {
      check()
      // A new function, so that the same `heard` may listen twice and stop once.
      const mine = () => heard()
      for (const topic of topics) {
        const others = listeners.get(topic)
        if (others) others.add(mine)
        else listeners.set(topic, new Set([mine]))
      }
      return () => {
        for (const topic of topics) {
          const others = listeners.get(topic)
          others?.delete(mine)
          if (others?.size === 0) listeners.delete(topic)
        }
      }
    },
  }
}
