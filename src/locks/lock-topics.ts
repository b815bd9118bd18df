import type { LockKey } from './lock-store.ts'
import type { Notified, Requester, Ruled } from './rules/index.ts'

/**
 * Who is woken for what. One who waits hears its own topic and the end of the wait queue; one who looks on hears the wait queue. So a
 * hand-over wakes one waiter, however many wait behind it.
 */

/** The part of a backend's notifier that locks use. */
export interface LocksNotifier {
  wake(topic: string): void
  listen(topics: readonly string[], heard: () => void): () => void
}

/** Something changed for this one. */
export function requesterTopic(key: LockKey, { node, requestId }: Requester): string {
  return topic('r', key.operation, key.resource, node, requestId)
}

/** Everybody who waited was told the end. */
export function endTopic(key: LockKey): string {
  return topic('e', key.operation, key.resource)
}

/** Something changed in the wait queue. Written out, for it is made at every step. */
export function queueTopic({ operation, resource }: LockKey): string {
  return `locks.l:${operation.length}:${operation}:${resource.length}:${resource}`
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

/** Wakes those whom a step concerns, also in the wait queues that its operation excludes. */
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
