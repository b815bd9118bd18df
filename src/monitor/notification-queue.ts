import { createId, createIds, decodeIdTime } from '../core/ids.ts'
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

/**
 * Ids of decisions and notifications. Their order is the order in which a subject's messages are sent, so they go by the
 * store's clock, which all processes share, and come after the last id that is known of the subject: two changes within
 * one millisecond, or on two machines whose clocks differ, are notified in the order in which they were written.
 */
export type Mint = (now: number, last: string) => string

/** Each id it makes is greater than `last` and than all it made before. */
export function createMint(): Mint {
  let time = 0
  const create = createIds({ now: () => time })
  return (now, last) => {
    time = now
    const id = create()
    if (id > last) return id
    time = decodeIdTime(last) + 1
    return create()
  }
}
