import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { onlyKeys, show, text, whole } from '../../core/options.ts'
import { canonicalJson, digestParts } from '../../once/index.ts'
import { resolveIgnore } from '../monitor-options.ts'
import type { SubjectName } from '../monitor-store.ts'
import { bothForms, type NameField, nameSubject, type ShownName } from '../subject-forms.ts'
import type { Reason } from './decide.ts'

interface ReportBasics {
  /** The same for every reporter of the same result. A task that was reported before is a duplicate. */
  readonly taskId: string
  readonly source: string
  /**
   * When the task observed the states (epoch milliseconds, or a Date). An older report never overwrites a newer one.
   */
  readonly observedAt: number | Date
  /** Fields that the comparison ignores, besides those of the monitor's options. @default none */
  readonly ignore?: readonly string[] | undefined
}

/** The states that a task observed, in the general form. */
export interface SubjectReport extends ReportBasics {
  /** At most 10,000, each with any JSON value of at most 256 KiB. */
  readonly subjects: readonly { readonly subject: string; readonly state: unknown }[]
}

/** The states that a task observed of the venues of a time slot. Each venue is a subject, named by time slot and id. */
export interface VenueReport extends ReportBasics {
  readonly timeSlot: string
  /** At most 10,000, each with any JSON value of at most 256 KiB. */
  readonly venues: readonly { readonly venueId: string; readonly state: unknown }[]
}

export type Report = SubjectReport | VenueReport

/**
 * `busy`: another reporter works on the task. `duplicate`: it was reported before. In both cases nothing was written.
 */
export interface ReportAnswer {
  readonly status: 'processed' | 'busy' | 'duplicate'
  readonly changes: readonly ReportedChange[]
  /** The number of new notifications. */
  readonly notified: number
  /** Changes without a notification, and why. */
  readonly suppressed: readonly (ShownName & { readonly reason: Reason })[]
  readonly failed: readonly FailedSubject[]
}

/** Has `subject` or `venueId`, as the report has. */
export interface ReportedChange extends ShownName {
  /** Null for a subject that was not known. */
  readonly from: unknown
  readonly to: unknown
  readonly reason: Reason
}

/** Has `subject` or `venueId`, as the report has. */
export interface FailedSubject extends ShownName {
  readonly error: { readonly code: string; readonly message: string }
}

/** A reported subject in the form for comparison. */
export interface Seen extends SubjectName {
  /** Canonical JSON text. */
  readonly state: string
  readonly stateHash: string
}

export interface ResolvedReport {
  readonly taskId: string
  readonly source: string
  readonly group: string
  readonly observedAt: number
  readonly seen: readonly Seen[]
  /** Subjects that are invalid. */
  readonly failed: readonly FailedSubject[]
  /** Shows a subject's name in the form of the report. */
  show(name: string): ShownName
}

const maxSubjects = 10_000

const basicKeys = ['taskId', 'source', 'observedAt', 'ignore']

/** A report in the general form, with the field names of its original form. */
interface GivenReport {
  readonly group: string
  readonly list: 'subjects' | 'venues'
  readonly items: unknown
  readonly field: NameField
}

/** Converts a report of either form into the general form: a venue is a subject whose group is the time slot. */
function readForm(report: Report): GivenReport {
  const { subjects, timeSlot, venues } = report as Partial<SubjectReport & VenueReport>
  if (subjects === undefined) {
    if (timeSlot === undefined || venues === undefined)
      throw invalidArgument('report needs subjects, or timeSlot and venues.')
    const group = text('report.timeSlot', timeSlot)
    return { group, list: 'venues', items: venues, field: 'venueId' }
  }
  if (timeSlot !== undefined || venues !== undefined) throw bothForms('report')
  return { group: '', list: 'subjects', items: subjects, field: 'subject' }
}

/** Checks a report. An invalid subject fails alone. */
export function resolveReport(report: Report, ignored: readonly string[]): ResolvedReport {
  onlyKeys('report', report, [...basicKeys, 'subjects', 'timeSlot', 'venues'])
  const taskId = text('report.taskId', report.taskId)
  const source = text('report.source', report.source)
  const form = readForm(report)
  const { group, list, field } = form
  const { observedAt, ignore = [] } = report
  const given = observedAt instanceof Date ? observedAt.getTime() : observedAt
  const instant = whole('report.observedAt', given, { max: 8_640_000_000_000_000 })
  const fields = [...ignored, ...resolveIgnore('report.ignore', ignore)]
  const show = (name: string): ShownName => ({ [field]: name })
  const bySubject = new Map<string, Seen>()
  const failed = new Map<string, FailedSubject>()
  for (const [index, item] of checkItems(form).entries()) {
    try {
      const seen = resolveItem(`${list}[${index}]`, item, { source, group, field }, fields)
      const before = bySubject.get(seen.subject)
      if (before && before.stateHash !== seen.stateHash) throw twice(field, seen.name)
      bySubject.set(seen.subject, before ?? seen)
    } catch (error) {
      const name = nameOf(item, field)
      failed.set(name, { ...show(name), error: describeFailure(error) })
    }
  }
  // A subject that failed once fails completely, because the true state is unknown.
  const seen = [...bySubject.values()].filter(({ name }) => !failed.has(name))
  return { taskId, source, group, observedAt: instant, seen, failed: [...failed.values()], show }
}

function checkItems({ items, list }: GivenReport): readonly unknown[] {
  if (!Array.isArray(items)) throw invalidArgument(`report.${list} must be an array, not ${show(items)}.`)
  if (items.length <= maxSubjects) return items
  throw new SignalboxError(
    'too_large',
    `report.${list} has ${items.length} ${list}; at most ${maxSubjects} are taken. Report them in several tasks.`,
    { details: { maxSubjects } },
  )
}

function resolveItem(
  option: string,
  item: unknown,
  { source, group, field }: { readonly source: string; readonly group: string; readonly field: NameField },
  ignore: readonly string[],
): Seen {
  onlyKeys(option, item, [field, 'state'])
  const { [field]: name, state } = item as { readonly [key in NameField | 'state']: unknown }
  const subject = nameSubject({ source, group, name: text(`${option}.${field}`, name) })
  if (state === undefined) throw invalidArgument(`${option}.state is missing.`)
  const whole = canonicalJson(`${option}.state`, state)
  const compared = ignore.length === 0 ? whole : canonicalJson(`${option}.state`, state, ignore)
  return { ...subject, state: whole, stateHash: digestParts(['state.1', compared]) }
}

/** The name of a subject for an answer, even if the name is invalid. */
function nameOf(item: unknown, field: NameField): string {
  const name = (item as { readonly [key in NameField]?: unknown } | null | undefined)?.[field]
  return typeof name === 'string' ? name.slice(0, 191).toWellFormed() : ''
}

function twice(field: NameField, name: string): SignalboxError {
  return invalidArgument(
    `The ${field === 'subject' ? 'subject' : 'venue'} ${show(name)} is in this report twice, with different states.`,
  )
}

/** The error of a subject in the answer. */
function describeFailure(error: unknown): FailedSubject['error'] {
  if (isSignalboxError(error)) return { code: error.code, message: error.message }
  // A getter or a proxy of the caller threw.
  return { code: 'invalid_argument', message: 'The subject could not be read: its state is not plain JSON.' }
}
