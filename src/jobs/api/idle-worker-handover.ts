import type { ClaimedRecord, ClaimRequest, JobStore, NewJob } from '../job-store.ts'

/**
 * From hand to hand: a job added while a worker of the same process stands idle is written already claimed by it. The
 * job is as durable as any other, and a worker on another machine loses nothing: it would have been the next in line.
 * One at a time, so that a burst of adds still shares its writes.
 */
export interface Taker {
  /** What to claim the job with, and a place kept for it; undefined when this worker is busy or does not do such jobs. */
  offer(job: NewJob): ClaimRequest | undefined
  /** The job it offered to take, or undefined when that came to nothing. */
  take(record: ClaimedRecord | undefined, sentAt: number): void
}

export interface Handover {
  /** Whether the job was added and handed over; if not, nothing was written. */
  tryTo(job: NewJob): Promise<boolean>
}

export function createHandover(store: JobStore, takers: Iterable<Taker>): Handover {
  let isBusy = false

  return {
    async tryTo(job) {
      if (store.addClaimed === undefined || isBusy || !isPlain(job)) return false
      for (const taker of takers) {
        const request = taker.offer(job)
        if (request === undefined) continue
        isBusy = true
        const sentAt = performance.now()
        let record: ClaimedRecord | undefined
        try {
          record = await store.addClaimed(job, request)
        } finally {
          isBusy = false
          taker.take(record, sentAt)
        }
        return record !== undefined
      }
      return false
    },
  }
}

function isPlain({ due, uniqueKey }: NewJob): boolean {
  return uniqueKey === null && 'delayMs' in due && due.delayMs === 0
}
