import { isLineTopic, type LocksBell } from './lock-topics.ts'

/**
 * A bell that rings lines a moment later, once for all that happened in them meanwhile. Whoever looks on looks after a
 * pause anyway (wait-queue-hub.ts), and a line that is taken and given back all the time would be rung for each. Those who wait are
 * rung at once.
 */
export interface LineBell extends LocksBell {
  /** Rings what is left. */
  close(): void
}

/** Part of the pause that wait-queue-hub.ts makes, which is that much shorter. */
export const lineRingMs = 25

export function createLineBell(bell: LocksBell): LineBell {
  const changed = new Set<string>()
  let timer: ReturnType<typeof setTimeout> | undefined

  function ringAll(): void {
    clearTimeout(timer)
    timer = undefined
    const topics = [...changed]
    changed.clear()
    try {
      for (const topic of topics) bell.ring(topic)
    } catch {
      // The store was closed meanwhile: nobody listens there, and elsewhere they look by themselves.
    }
  }

  return {
    ring(topic) {
      if (!isLineTopic(topic)) return bell.ring(topic)
      changed.add(topic)
      if (timer !== undefined) return
      timer = setTimeout(ringAll, lineRingMs)
      timer.unref?.()
    },
    listen: (topics, heard) => bell.listen(topics, heard),
    close: ringAll,
  }
}
