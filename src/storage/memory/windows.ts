import { type EndingMoment, endWindows } from '../../monitor/delivery/sending-end.ts'
import type { ReportBatch, SendingEnd, WindowRecord } from '../../monitor/monitor-store.ts'

type Reservation = ReportBatch['reservations'][number]

/** The windows of a namespace: which states of a subject each subscription was notified of, or is about to be. */
export class MemoryWindows {
  /** By subject, then by subscription and state. */
  readonly #windows = new Map<string, Map<string, WindowRecord>>()

  of(subject: string): readonly WindowRecord[] {
    return [...(this.#windows.get(subject)?.values() ?? [])]
  }

  /** Reserves a window. The time of an earlier notification stays. */
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

  /** A notification of this subject ended. */
  end(subject: string, outcome: SendingEnd['outcome'], moment: EndingMoment): void {
    const { subscriptionId } = moment.notification
    const windows = this.#at(subject)
    const before = [...windows.values()].filter((window) => window.subscriptionId === subscriptionId)
    for (const window of before) windows.delete(keyOf(window))
    for (const window of endWindows(before, outcome, moment)) windows.set(keyOf(window), window)
  }

  /** Deletes up to `limit` old windows. Answers how many. */
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

  #at(subject: string): Map<string, WindowRecord> {
    const windows = this.#windows.get(subject) ?? new Map<string, WindowRecord>()
    this.#windows.set(subject, windows)
    return windows
  }
}

function keyOf({ subscriptionId, stateHash }: Pick<WindowRecord, 'subscriptionId' | 'stateHash'>): string {
  return `${subscriptionId}\n${stateHash}`
}
