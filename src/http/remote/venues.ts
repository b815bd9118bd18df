import { isSignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import type { FailedVenue, Report } from '../../monitor/index.ts'

/**
 * What can be sent of a report, and what cannot: a state that JSON would bend, or that is too large for any store, fails
 * here as it would there, and the rest goes on its way. A venue that failed once is not sent at all.
 */
export function sortVenues(venues: Report['venues']): {
  readonly sendable: Report['venues']
  readonly failed: readonly FailedVenue[]
} {
  // What is no list of venues at all is for the server to refuse.
  if (!Array.isArray(venues)) return { sendable: venues, failed: [] }
  const failed = new Map<string, FailedVenue>()
  for (const [index, venue] of venues.entries()) {
    try {
      encodeJson(`venues[${index}].state`, venue?.state)
    } catch (error) {
      if (!isSignalboxError(error) || typeof venue?.venueId !== 'string') throw error
      const { code, message } = error
      failed.set(venue.venueId, { venueId: venue.venueId, error: { code, message } })
    }
  }
  const sendable = failed.size === 0 ? venues : venues.filter((venue) => !failed.has(venue?.venueId))
  return { sendable, failed: [...failed.values()] }
}
