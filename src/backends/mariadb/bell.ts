import type { BackendBell } from '../backend.ts'

/**
 * MariaDB tells nobody of a commit, so rings stay in this process and other processes poll (`traits.remoteBell` is
 * false). A ring is heard in a later turn of the event loop, once a turn for each listener: whoever rings inside a
 * loop of adds wakes its listeners once.
 */
export function createMariadbBell(): BackendBell {
  const listeners = new Map<string, Set<() => void>>()
  let due = new Set<() => void>()

  function deliver(): void {
    const now = due
    due = new Set()
    for (const heard of now) heard()
  }

  return {
    ring(topic) {
      const those = listeners.get(topic)
      if (those === undefined) return
      if (due.size === 0) queueMicrotask(deliver)
      for (const heard of those) due.add(heard)
    },
    listen(topics, heard) {
      // A function of our own, so that the same `heard` given twice is two listeners.
      const mine = () => heard()
      for (const topic of topics) {
        const those = listeners.get(topic) ?? new Set()
        listeners.set(topic, those.add(mine))
      }
      return () => {
        due.delete(mine)
        for (const topic of topics) {
          const those = listeners.get(topic)
          those?.delete(mine)
          if (those?.size === 0) listeners.delete(topic)
        }
      }
    },
  }
}
