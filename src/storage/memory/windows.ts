import type { NotificationRecord, ReportBatch, WindowRecord } from '../../monitor/monitor-store.ts'

type Reservation = ReportBatch['reservations'][number]
type Notice = Pick<NotificationRecord, 'id' | 'subject' | 'subscriptionId' | 'stateHash' | 'windowMs'>

/** What each subscription was notified of each state of a subject, or is about to be. */
export class MemoryWindows {
  /** By subject, then by subscription and state. */
  readonly #windows = new Map<string, Map<string, WindowRecord>>()

  of(subject: string): readonly WindowRecord[] {
    return [...(this.#windows.get(subject)?.values() ?? [])]
  }

  /** When it was notified before stays noted. */
  reserve({ subject, subscriptionId, stateHash, notificationId }: Reservation): void {
    const windows = this.#at(subject)
    const key = keyOf({ subscriptionId, stateHash })
    const notifiedAt = windows.get(key)?.notifiedAt ?? null
    windows.set(key, {
      subscriptionId,
      stateHash,
      notificationId,
      status: 'pending',
      notifiedAt,
      endsAt: null,
    })
  }

  /** The window begins; what is over, and what is owed of a past state, is forgotten: this is what was notified last. */
  notify(
    { id, subject, subscriptionId, stateHash, windowMs }: Notice,
    present: string | undefined,
    now: number,
  ): void {
    const windows = this.#at(subject)
    for (const [key, window] of windows) {
      const isSpent = isOver(window, now) || isOwedOfPast(window, present)
      if (window.subscriptionId === subscriptionId && isSpent) windows.delete(key)
    }
    const notified = {
      subscriptionId,
      stateHash,
      notificationId: id,
      notifiedAt: now,
      endsAt: now + windowMs,
    }
    windows.set(keyOf(notified), { ...notified, status: 'notified' })
  }

  /** The message died: what it reserved is owed, and of past states nothing that was never notified. */
  owe(notice: Notice, present: string | undefined): void {
    const windows = this.#at(notice.subject)
    for (const [key, window] of windows) {
      const isMeant = window.subscriptionId === notice.subscriptionId && window.notifiedAt === null
      if (isMeant && isOwedOfPast(window, present)) windows.delete(key)
    }
    const reserved = this.#reservedBy(notice)
    if (reserved) windows.set(keyOf(notice), { ...reserved, status: 'owed' })
  }

  /** The message was given up: what it reserved is free. */
  free(notice: Notice): void {
    if (this.#reservedBy(notice)) this.#at(notice.subject).delete(keyOf(notice))
  }

  /** Forgets up to `limit` windows that are over for long enough; answers how many. */
  prune(isOld: (endsAt: number | null) => boolean, limit: number): number {
    let count = 0
    for (const windows of this.#windows.values()) {
      for (const [key, { status, endsAt }] of windows) {
        if (count >= limit) return count
        if (status === 'notified' && isOld(endsAt) && windows.delete(key)) count++
      }
    }
    return count
  }

  /** The window that this notification reserved, if it is still its own. */
  #reservedBy(notice: Notice): WindowRecord | undefined {
    const window = this.#windows.get(notice.subject)?.get(keyOf(notice))
    return window?.status === 'pending' && window.notificationId === notice.id ? window : undefined
  }

  #at(subject: string): Map<string, WindowRecord> {
    const windows = this.#windows.get(subject) ?? new Map<string, WindowRecord>()
    this.#windows.set(subject, windows)
    return windows
  }
}

function isOver({ status, endsAt }: WindowRecord, now: number): boolean {
  return status === 'notified' && (endsAt === null || endsAt <= now)
}

function isOwedOfPast({ status, stateHash }: WindowRecord, present: string | undefined): boolean {
  return status === 'owed' && stateHash !== present
}

function keyOf({ subscriptionId, stateHash }: Pick<WindowRecord, 'subscriptionId' | 'stateHash'>): string {
  return `${subscriptionId}\n${stateHash}`
}
