import type { NotificationRecord, SendingEnd, WindowRecord } from '../monitor-store.ts'

/**
 * What the end of a sending means for its notification and for the windows of its subject and subscription. Pure: every
 * store asks these functions and writes what they answer.
 *
 *     sent, held ──▶ its window is notified; windows that are over, or owed of a past state, are forgotten
 *     dead ────────▶ its window is owed; what else is owed of a past state, and was never notified, is forgotten
 *     cancelled ───▶ its window is forgotten
 *     retry ───────▶ its window stays reserved
 *
 * A window that another notification has reserved since is left alone by `dead` and `cancelled`.
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
  const attemptLeft = free ? attempt - 1 : attempt
  return {
    status: 'pending',
    attempt: attemptLeft,
    dueAt: now + afterMs,
    finishedAt: null,
    error,
    digestId,
  }
}

/** Where an end happens: the notification, the state that its subject has now, and the store's clock. */
export interface EndingMoment {
  readonly notification: Pick<NotificationRecord, 'id' | 'subscriptionId' | 'stateHash' | 'windowMs'>
  readonly presentHash: string | null
  readonly now: number
}

/** The windows of one subject and subscription after the end. Those that stay as they are stay the same objects. */
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
