import { createId, createIds, decodeIdTime } from '../core/ids.ts'
import type { NewJob } from '../jobs/index.ts'

/** The queue of the monitor's own jobs, which send notifications and reconcile subjects. */
export const notifyQueue = 'signalbox.notify'

/**
 * Creates a job of that queue. It has no unique key: otherwise a running job would swallow the hint that there is more
 * to send. The many attempts keep it from dying: the notifications have their own tries.
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
 * Creates ids of decisions and notifications. Their order is the order in which a subject's messages are sent. So an id
 * uses the store's clock, which all processes share, and is greater than the last id of the subject. Two changes within
 * one millisecond, or on two machines whose clocks differ, are notified in the order in which they were written.
 */
export type Mint = (now: number, last: string) => string

/** Each new id is greater than `last` and than all earlier ids of this mint. */
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
