import type { BackendBell } from '../backend.ts'

/** The bells of this process alone; `silence` lets go of everyone who listens. */
export interface MemoryBell {
  /** The bell of one namespace; topics of different ones never meet. */
  within(namespace: string): BackendBell
  silence(): void
}

export function createMemoryBell(check: () => void): MemoryBell {
  const namespaces = new Map<string, Map<string, Set<() => void>>>()
  return {
    within(namespace) {
      const listeners = namespaces.get(namespace) ?? new Map<string, Set<() => void>>()
      namespaces.set(namespace, listeners)
      return createBell(listeners, check)
    },
    silence() {
      for (const listeners of namespaces.values()) listeners.clear()
    },
  }
}

function createBell(listeners: Map<string, Set<() => void>>, check: () => void): BackendBell {
  return {
    ring(topic) {
      // A copy: whoever hears may stop listening, or start anew, which must not be heard in the same ring.
      for (const heard of [...(listeners.get(topic) ?? [])]) heard()
    },
    listen(topics, heard) {
      check()
      // A function of its own, so that the same `heard` may listen twice and stop once.
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
