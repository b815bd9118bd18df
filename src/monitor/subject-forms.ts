import { invalidArgument, type SignalboxError } from '../core/errors.ts'
import { onlyKeys, text } from '../core/options.ts'
import { digestParts } from '../once/index.ts'
import type { SubjectName } from './monitor-store.ts'

/**
 * The two forms in which callers name a subject. Only this file knows both.
 *
 *     general   { source, subject }               group ''         name = subject
 *     venues    { source, timeSlot, venueId }     group = timeSlot name = venueId
 *
 * Inside the monitor a subject has a source, a group and a name. A subject is shown in the form in which it was
 * reported.
 */
export type SubjectPlace =
  | { readonly source: string; readonly subject: string }
  | { readonly source: string; readonly timeSlot: string; readonly venueId: string }

/** A subject as records show it: `subject`, or `timeSlot` and `venueId`. */
export interface ShownPlace {
  readonly source: string
  readonly subject?: string
  readonly timeSlot?: string
  readonly venueId?: string
}

/** A subject as the answer to a report shows it: `subject`, or `venueId`. */
export interface ShownName {
  readonly subject?: string
  readonly venueId?: string
}

/** The unchecked fields by which a caller names a subject. */
export interface GivenPlace {
  readonly source?: string | undefined
  readonly subject?: string | undefined
  readonly timeSlot?: string | undefined
  readonly venueId?: string | undefined
}

export const placeKeys = ['source', 'subject', 'timeSlot', 'venueId'] as const

/** The field that names a subject in each form. */
export type NameField = 'subject' | 'venueId'

/** Adds the key to the names of a subject. */
export function nameSubject({ source, group, name }: Omit<SubjectName, 'subject'>): SubjectName {
  return { subject: digestParts(['subject.1', source, group, name]), source, group, name }
}

/** Reads a subject in either form. */
export function resolvePlace(option: string, given: GivenPlace, more: readonly string[] = []): SubjectName {
  onlyKeys(option, given, [...placeKeys, ...more])
  const isVenue = given.timeSlot !== undefined && given.venueId !== undefined
  if (given.source === undefined || (given.subject === undefined && !isVenue)) throw incomplete(option)
  const source = text(`${option}.source`, given.source)
  if (given.subject === undefined) {
    const group = text(`${option}.timeSlot`, given.timeSlot)
    return nameSubject({ source, group, name: text(`${option}.venueId`, given.venueId) })
  }
  if (given.timeSlot !== undefined || given.venueId !== undefined) throw bothForms(option)
  return nameSubject({ source, group: '', name: text(`${option}.subject`, given.subject) })
}

/** Reads a subject of a query; undefined: the query names none. */
export function resolveOptionalPlace(option: string, given: GivenPlace): SubjectName | undefined {
  const { source, subject, timeSlot, venueId } = given
  if (placeKeys.every((key) => given[key] === undefined)) return undefined
  return resolvePlace(option, { source, subject, timeSlot, venueId })
}

export function showPlace({ source, group, name }: Omit<SubjectName, 'subject'>): SubjectPlace {
  return group === '' ? { source, subject: name } : { source, timeSlot: group, venueId: name }
}

function incomplete(option: string): SignalboxError {
  return invalidArgument(
    `${option} names one subject by source and subject, or by source, timeSlot and venueId.`,
  )
}

export function bothForms(option: string): SignalboxError {
  return invalidArgument(`${option} has fields of both forms. Give subject, or timeSlot and venueId.`)
}
