import type { LockKey, WaitQueueView } from './lock-store.ts'
import { queueTopic, wakeDelayMs } from './lock-topics.ts'
import type { LocksParts } from './locks.ts'
import type { Requester } from './rules/index.ts'

/**
 * Looks at wait queues for all who look on: one reading of a wait queue is shared by everybody, and made after a wake-up or when its
 * time has come, so the cost of a change does not grow with those who see it by more than telling them.
 */
export interface WaitQueueHub {
  /** Tells the wait queue as it is now, and then whenever it changed, until the returned function is called. */
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

/** Where those who are shown stand, by name; made once for all who look it up. */
export function positionsIn(view: WaitQueueView): ReadonlyMap<string, number> {
  const known = positions.get(view)
  if (known) return known
  const made = new Map(view.waiters.map((waiter) => [nameOf(waiter), waiter.position]))
  positions.set(view, made)
  return made
}

/** A requester as one text, in one piece; no two have the same. */
export function nameOf({ node, requestId }: Requester): string {
  return [node.length, node, requestId].join(':')
}

/** A wait queue that changes all the time is shown ten times a second; its wake-up comes a moment late. */
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
        // One reading answers all wake-ups before it; wake-ups that do not stop must not put it off for ever.
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
      // The store is in trouble, or was closed: who waits in the wait queue learns that by itself, and the next look follows.
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
