import type { BackendBell } from '../backend.ts'

/** A bell for this process alone; `silence` lets go of everyone who listens. */
export interface MemoryBell extends BackendBell {
  silence(): void
}

export function createMemoryBell(check: () => void): MemoryBell {
  const listeners = new Map<string, Set<() => void>>()
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
    silence: () => listeners.clear(),
  }
}
