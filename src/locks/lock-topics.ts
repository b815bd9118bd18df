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
export function isQueueTopic(name: string): boolean {
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
