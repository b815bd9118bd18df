import type { LockKey } from './lock-store.ts'
import type { Notified, Requester, Ruled } from './rules/index.ts'

/**
 * The topics of wake-ups. A waiter listens to its own topic and to the end of the wait queue; a watcher listens to the wait
 * queue. So a hand-over wakes one waiter, however many wait behind it.
 */

/** The part of a backend's notifier that locks use. */
export interface LocksNotifier {
  wake(topic: string): void
  listen(topics: readonly string[], heard: () => void): () => void
}

/** Something changed for this requester. */
export function requesterTopic(key: LockKey, { node, requestId }: Requester): string {
  return topic('r', key.operation, key.resource, node, requestId)
}

/** The wait of all waiters ended. */
export function endTopic(key: LockKey): string {
  return topic('e', key.operation, key.resource)
}

/** Something changed in the wait queue. This template is faster than `topic`, and every step makes this name. */
export function queueTopic({ operation, resource }: LockKey): string {
  return `locks.l:${operation.length}:${operation}:${resource.length}:${resource}`
}

/** A unique name for a requester. */
export function nameOfRequester({ node, requestId }: Requester): string {
  return `${node.length}:${node}:${requestId}`
}

/** Whether a topic is that of a wait queue. */
function isQueueTopic(name: string): boolean {
  return name.startsWith('locks.l:')
}

export function wakeFor(
  notifier: LocksNotifier,
  key: LockKey,
  { requesters, everyone, changed }: Notified,
  except?: Requester,
): void {
  for (const who of requesters) {
    if (who.node !== except?.node || who.requestId !== except.requestId)
      notifier.wake(requesterTopic(key, who))
  }
  if (everyone) notifier.wake(endTopic(key))
  if (changed) notifier.wake(queueTopic(key))
}

/** Wakes the requesters that a step changed, also in the wait queues that its operation excludes. */
export function wakeForStep(
  notifier: LocksNotifier,
  key: LockKey,
  { notified, elsewhere }: Ruled<object>,
  except?: Requester,
): void {
  wakeFor(notifier, key, notified, except)
  for (const other of elsewhere ?? [])
    wakeFor(notifier, { ...key, operation: other.operation }, other.notified)
}

/**
 * Each part follows its length, so that two different lists of names never make the same topic. Each waiter keeps two
 * topics: `join` makes one flat string, where `+` would keep every intermediate one.
 */
function topic(kind: string, ...names: readonly string[]): string {
  return [`locks.${kind}`, ...names.flatMap((name) => [name.length, name])].join(':')
}

/**
 * A notifier that wakes waiters at once, and the watchers of a wait queue after a short delay, once for all changes
 * meanwhile. Watchers pause between two reads anyway (wait-queue-hub.ts), and a busy wait queue would wake them for every
 * change.
 */
export interface WaitQueueNotifier extends LocksNotifier {
  /** Sends the wake-ups that are still delayed. */
  close(): void
}

/** The pause in wait-queue-hub.ts is shorter by this delay. */
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
      // The store was closed meanwhile: it has no listeners in this process, and other processes poll.
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
