/**
 * A source whose venues are reported repeatedly: the first time all of them are new, from then on one in a hundred
 * has changed since the last time, each time others, spread evenly, so that every batch has its part of them.
 */
import type { Box } from 'signalbox'
import type { VenueReport } from 'signalbox/monitor'

type Venue = VenueReport['venues'][number]

export class Feed {
  readonly source: string
  readonly #venues: Venue[]
  #reportCount = 0
  /** Reports must not lie in the future, and each is newer than the one before. */
  readonly #beginsAt = Date.now() - 3_600_000

  constructor(source: string, venueCount: number) {
    this.source = source
    this.#venues = Array.from({ length: venueCount }, (_, at) => createVenue(at, 0))
  }

  /** How many venues differ from report to report. */
  get changeCount(): number {
    return this.#venues.length / 100
  }

  next(): VenueReport {
    const nr = this.#reportCount++
    if (nr > 0)
      for (let at = nr % 100; at < this.#venues.length; at += 100) this.#venues[at] = createVenue(at, nr)
    return {
      taskId: `${this.source}-${nr}`,
      source: this.source,
      timeSlot: '2025-06-01',
      observedAt: this.#beginsAt + nr * 1_000,
      venues: [...this.#venues],
    }
  }
}

/** A state of some 180 bytes. */
function createVenue(at: number, nr: number): Venue {
  return {
    venueId: `venue-${at}`,
    state: {
      free: nr,
      courts: 4,
      price: { amount: '120.00', currency: 'CNY' },
      hours: [9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21],
      address: 'No. 88, West Lake Road',
      note: 'Bring your own rackets and shoes.',
    },
  }
}

/** A subscription to everything. No sender runs here, so the address is never used. */
export async function subscribeToAll(box: Box): Promise<void> {
  const channel = {
    type: 'webhook' as const,
    url: 'https://93.184.216.34/hook',
    secret: 'bench-secret-0123456789',
  }
  await box.monitor.subscribe({ name: 'everything', channel })
}

/** Reports, and throws unless all of it was taken and `notified` changes were notified. */
export async function reportAll(box: Box, report: VenueReport, changeCount: number): Promise<void> {
  const { status, notified, failed } = await box.monitor.report(report)
  if (status !== 'processed' || notified !== changeCount || failed.length > 0) {
    const [first] = failed
    throw new Error(`${status}, ${notified} notified, ${failed.length} failed ${first?.error.message ?? ''}`)
  }
}
