import type { NotificationRecord, SendingEnd, WindowRecord } from '../monitor-store.ts'

/**
 * Computes how the end of a sending changes its notification, and the windows of its subject and subscription. Pure:
 * every store calls these functions and writes the result.
 *
 *     sent, held ──▶ its window is notified; windows that are over, or owed of a past state, are deleted
 *     dead ────────▶ its window is owed; other windows owed of a past state, and never notified, are deleted
 *     cancelled ───▶ its window is deleted
 *     retry ───────▶ its window stays reserved
 *
 * If another notification reserved a window meanwhile, `dead` and `cancelled` do not change it.
 */
type Ending = Pick<SendingEnd, 'outcome' | 'afterMs' | 'free' | 'error' | 'digestId'>

export type EndedNotification = Pick<
  NotificationRecord,
  'status' | 'attempt' | 'dueAt' | 'finishedAt' | 'error' | 'digestId'
>

export function endNotification(
  { attempt, dueAt }: Pick<NotificationRecord, 'attempt' | 'dueAt'>,
  { outcome, afterMs = 0, free = false, error, digestId }: Ending,
  now: number,
): EndedNotification {
  if (outcome !== 'retry') return { status: outcome, attempt, dueAt, finishedAt: now, error, digestId }
  const attemptKept = free ? attempt - 1 : attempt
  return {
    status: 'pending',
    attempt: attemptKept,
    dueAt: now + afterMs,
    finishedAt: null,
    error,
    digestId,
  }
}

/** The circumstances of an end: the notification, the present state of its subject, and the store's clock. */
export interface EndingMoment {
  readonly notification: Pick<NotificationRecord, 'id' | 'subscriptionId' | 'stateHash' | 'windowMs'>
  readonly presentHash: string | null
  readonly now: number
}

/** The windows of one subject and subscription after the end. Unchanged windows stay the same objects. */
export function endWindows(
  windows: readonly WindowRecord[],
  outcome: SendingEnd['outcome'],
  { notification, presentHash, now }: EndingMoment,
): readonly WindowRecord[] {
  const { id, subscriptionId, stateHash, windowMs } = notification
  const isReserved = (window: WindowRecord) =>
    window.stateHash === stateHash && window.status === 'pending' && window.notificationId === id
  const isOwedOfPast = (window: WindowRecord) => window.status === 'owed' && window.stateHash !== presentHash
  const isOver = ({ status, endsAt }: WindowRecord) =>
    status === 'notified' && (endsAt === null || endsAt <= now)
  switch (outcome) {
    case 'retry':
      return windows
    case 'cancelled':
      return windows.filter((window) => !isReserved(window))
    case 'dead':
      return windows
        .filter((window) => window.notifiedAt !== null || !isOwedOfPast(window))
        .map((window) => (isReserved(window) ? { ...window, status: 'owed' } : window))
    default:
      return [
        ...windows.filter(
          (window) => window.stateHash !== stateHash && !isOver(window) && !isOwedOfPast(window),
        ),
        {
          ...{ subscriptionId, stateHash, status: 'notified', notificationId: id },
          ...{ notifiedAt: now, endsAt: now + windowMs },
        },
      ]
  }
}
