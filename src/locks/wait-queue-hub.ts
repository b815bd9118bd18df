import type { LockKey, WaitQueueView } from './lock-store.ts'
import { nameOfRequester, queueTopic, wakeDelayMs } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'

/**
 * Reads wait queues for all their watchers. After a wake-up, or at the poll, it reads a wait queue once and gives the view to
 * all subscribers. So a change costs one read, however many watch.
 */
export interface WaitQueueHub {
  /** Calls `seen` with the wait queue as it is now, and after each change, until the returned function is called. */
  subscribe(key: LockKey, seen: (view: WaitQueueView | undefined) => void): () => void
  close(): void
}

interface Watched {
  readonly key: LockKey
  readonly subscribers: Set<(view: WaitQueueView | undefined) => void>
  readonly unlisten: () => void
  view: WaitQueueView | undefined
  isRead: boolean
  isReading: boolean
  isWoken: boolean
  timer: ReturnType<typeof setTimeout> | undefined
}

const positions = new WeakMap<WaitQueueView, ReadonlyMap<string, number>>()

/** The positions of the shown waiters, by name; computed once for each view. */
export function positionsIn(view: WaitQueueView): ReadonlyMap<string, number> {
  const known = positions.get(view)
  if (known) return known
  const made = new Map(view.waiters.map((waiter) => [nameOfRequester(waiter), waiter.position]))
  positions.set(view, made)
  return made
}

/** A wait queue that changes all the time is read ten times a second. Its wake-up is late by `wakeDelayMs`. */
const gapMs: number = 100 - wakeDelayMs
const shownWaiters = 100

export function createQueueHub({ store, notifier, remoteWakeUps }: LocksParts): WaitQueueHub {
  const queues = new Map<string, Watched>()
  const pollMs = remoteWakeUps ? 5_000 : 1_000

  function open(key: LockKey): Watched {
    const queue: Watched = {
      key,
      subscribers: new Set(),
      unlisten: notifier.listen([queueTopic(key)], () => {
        // One read answers all wake-ups before it. Further wake-ups must not postpone it.
        if (queue.isWoken) return
        queue.isWoken = true
        later(queue, gapMs)
      }),
      view: undefined,
      isRead: false,
      isReading: false,
      isWoken: false,
      timer: undefined,
    }
    void read(queue)
    return queue
  }

  function later(queue: Watched, ms: number): void {
    if (queue.isReading) return
    clearTimeout(queue.timer)
    queue.timer = setTimeout(() => void read(queue), ms)
    queue.timer.unref?.()
  }

  async function read(queue: Watched): Promise<void> {
    queue.isReading = true
    queue.isWoken = false
    try {
      const view = await store.inspect(queue.key, shownWaiters)
      const isNews = !queue.isRead || view?.revision !== queue.view?.revision
      queue.view = view
      queue.isRead = true
      if (isNews) for (const seen of [...queue.subscribers]) seen(view)
    } catch {
      // The store failed or was closed. Waiters learn that from their own calls; the next read follows.
    }
    queue.isReading = false
    if (queue.subscribers.size > 0) later(queue, queue.isWoken ? gapMs : pollMs * (0.75 + Math.random() / 2))
  }

  return {
    subscribe(key, seen) {
      const name = queueTopic(key)
      const queue = queues.get(name) ?? open(key)
      queues.set(name, queue)
      queue.subscribers.add(seen)
      if (queue.isRead) seen(queue.view)
      return () => {
        queue.subscribers.delete(seen)
        if (queue.subscribers.size > 0) return
        clearTimeout(queue.timer)
        queue.unlisten()
        if (queues.get(name) === queue) queues.delete(name)
      }
    },
    close() {
      for (const { timer, unlisten } of queues.values()) {
        clearTimeout(timer)
        unlisten()
      }
      queues.clear()
    },
  }
}
