import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { onlyKeys, show, text, whole } from '../../core/options.ts'
import { canonicalJson, digestParts } from '../../once/index.ts'
import { resolveIgnore } from '../monitor-options.ts'
import type { SubjectName } from '../monitor-store.ts'
import type { Reason } from './decide.ts'

/** What a task saw of its venues. */
export interface Report {
  /** The same for everybody who reports the same result; reported once, it is a duplicate. */
  readonly taskId: string
  readonly source: string
  readonly timeSlot: string
  /** When it was seen (epoch milliseconds, or a Date). An older report never overwrites what a newer one said. */
  readonly observedAt: number | Date
  /** At most 10,000, each with any JSON value of at most 256 KiB. */
  readonly venues: readonly { readonly venueId: string; readonly state: unknown }[]
  /** Fields of these states that are no change, besides those of the monitor's options. @default none */
  readonly ignore?: readonly string[] | undefined
}

/** `busy`: somebody else has the task in hand. `duplicate`: it was reported before. In both cases nothing was done. */
export interface ReportAnswer {
  readonly status: 'processed' | 'busy' | 'duplicate'
  readonly changes: readonly ReportedChange[]
  /** How many notifications were made. */
  readonly notified: number
  /** What was not notified to anybody, and why. */
  readonly suppressed: readonly { readonly venueId: string; readonly reason: Reason }[]
  readonly failed: readonly FailedVenue[]
}

export interface ReportedChange {
  readonly venueId: string
  /** Null for a venue that was not known. */
  readonly from: unknown
  readonly to: unknown
  readonly reason: Reason
}

export interface FailedVenue {
  readonly venueId: string
  readonly error: { readonly code: string; readonly message: string }
}

/** A venue as it was seen, ready to be compared. */
export interface Seen extends SubjectName {
  /** Canonical JSON text. */
  readonly state: string
  readonly stateHash: string
}

export interface ResolvedReport {
  readonly taskId: string
  readonly source: string
  readonly timeSlot: string
  readonly observedAt: number
  readonly seen: readonly Seen[]
  /** Venues that cannot be taken as they are. */
  readonly failed: readonly FailedVenue[]
}

export const maxVenues = 10_000

const reportKeys = ['taskId', 'source', 'timeSlot', 'observedAt', 'venues', 'ignore']

/** Checks a report; what is wrong with one venue is that venue's failure and no other's. */
export function resolveReport(report: Report, ignored: readonly string[]): ResolvedReport {
  onlyKeys('report', report, reportKeys)
  const taskId = text('report.taskId', report.taskId)
  const place = {
    source: text('report.source', report.source),
    timeSlot: text('report.timeSlot', report.timeSlot),
  }
  const { observedAt, venues, ignore = [] } = report
  const given = observedAt instanceof Date ? observedAt.getTime() : observedAt
  const instant = whole('report.observedAt', given, { max: 8_640_000_000_000_000 })
  const fields = [...ignored, ...resolveIgnore('report.ignore', ignore)]
  const bySubject = new Map<string, Seen>()
  const failed = new Map<string, FailedVenue>()
  for (const [index, venue] of checkVenues(venues).entries()) {
    try {
      const seen = resolveVenue(`venues[${index}]`, venue, place, fields)
      const before = bySubject.get(seen.subject)
      if (before && before.stateHash !== seen.stateHash) throw twice(seen.venueId)
      bySubject.set(seen.subject, before ?? seen)
    } catch (error) {
      const venueId = nameOf(venue)
      failed.set(venueId, { venueId, error: describeFailure(error) })
    }
  }
  // A venue that failed once is failed as a whole: which of its states is true nobody can say.
  const seen = [...bySubject.values()].filter(({ venueId }) => !failed.has(venueId))
  return {
    taskId,
    ...place,
    observedAt: instant,
    seen,
    failed: [...failed.values()],
  }
}

function checkVenues(venues: unknown): readonly unknown[] {
  if (!Array.isArray(venues))
    throw new SignalboxError('invalid_argument', `report.venues must be an array, not ${show(venues)}.`)
  if (venues.length <= maxVenues) return venues
  throw new SignalboxError(
    'too_large',
    `report.venues has ${venues.length} venues; at most ${maxVenues} are taken. Report them in several tasks.`,
    { details: { maxVenues } },
  )
}

function resolveVenue(
  name: string,
  venue: unknown,
  place: { readonly source: string; readonly timeSlot: string },
  ignore: readonly string[],
): Seen {
  onlyKeys(name, venue, ['venueId', 'state'])
  const { venueId, state } = venue as { venueId: unknown; state: unknown }
  const subject = nameSubject({ ...place, venueId: text(`${name}.venueId`, venueId) })
  if (state === undefined) throw new SignalboxError('invalid_argument', `${name}.state is missing.`)
  const whole = canonicalJson(`${name}.state`, state)
  const compared = ignore.length === 0 ? whole : canonicalJson(`${name}.state`, state, ignore)
  return { ...subject, state: whole, stateHash: digestParts(['state.1', compared]) }
}

/** The subject with its key. */
export function nameSubject(place: Omit<SubjectName, 'subject'>): SubjectName {
  const { source, timeSlot, venueId } = place
  return { subject: digestParts(['subject.1', source, timeSlot, venueId]), source, timeSlot, venueId }
}

/** What a venue is called in an answer, also where that is no name. */
function nameOf(venue: unknown): string {
  const venueId = (venue as { venueId?: unknown } | null | undefined)?.venueId
  return typeof venueId === 'string' ? venueId.slice(0, 191).toWellFormed() : ''
}

function twice(venueId: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `The venue ${show(venueId)} is in this report twice, with different states.`,
  )
}

/** What went wrong, as the answer shows it. */
function describeFailure(error: unknown): FailedVenue['error'] {
  if (isSignalboxError(error)) return { code: error.code, message: error.message }
  // A getter or a proxy of the caller's threw.
  return { code: 'invalid_argument', message: 'The venue could not be read: its state is not plain JSON.' }
}
