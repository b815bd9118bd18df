import { createId } from '../core/ids.ts'
import type { NewJob } from '../jobs/index.ts'

/** The queue of what is to be sent and looked at again; its jobs are made and worked on here alone. */
export const notifyQueue = 'signalbox.notify'

/**
 * A job of that queue. It has no unique key: one that is running would swallow the word that there is more. It never
 * dies for want of attempts, because what it is about is kept elsewhere.
 */
export function notifyJob(kind: 'send' | 'reconcile', payload: object, due: NewJob['due']): NewJob {
  return {
    id: createId(),
    queue: notifyQueue,
    kind,
    payload: JSON.stringify(payload),
    priority: 0,
    uniqueKey: null,
    due,
    maxAttempts: 1_000,
    backoff: null,
    timeoutMs: null,
    meta: null,
  }
}
