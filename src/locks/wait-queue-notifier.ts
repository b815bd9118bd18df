import { isQueueTopic, type LocksNotifier } from './lock-topics.ts'

/**
 * A notifier that wakes the watchers of a wait queue a moment later, once for all changes meanwhile. Watchers pause
 * between two looks anyway (wait-queue-hub.ts), and a busy wait queue would wake them for every change. Waiters are woken
 * at once.
 */
export interface WaitQueueNotifier extends LocksNotifier {
  /** Wakes what is left. */
  close(): void
}

/** Part of the pause that wait-queue-hub.ts makes, which is that much shorter. */
export const wakeDelayMs = 25

export function createWaitQueueNotifier(notifier: LocksNotifier): WaitQueueNotifier {
  const changed = new Set<string>()
  let timer: ReturnType<typeof setTimeout> | undefined

  function wakeAll(): void {
    clearTimeout(timer)
    timer = undefined
    const topics = [...changed]
    changed.clear()
    try {
      for (const topic of topics) notifier.wake(topic)
    } catch {
      // The store was closed meanwhile: it has no listeners here, and other processes poll.
    }
  }

  return {
    wake(topic) {
      if (!isQueueTopic(topic)) return notifier.wake(topic)
      changed.add(topic)
      if (timer !== undefined) return
      timer = setTimeout(wakeAll, wakeDelayMs)
      timer.unref?.()
    },
    listen: (topics, heard) => notifier.listen(topics, heard),
    close: wakeAll,
  }
}
