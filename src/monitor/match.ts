import { invalidArgument } from '../core/errors.ts'
import { onlyKeys, show, text } from '../core/options.ts'
import { bothForms, placeKeys } from './subject-forms.ts'

/** Which texts are meant: one, one of several, or all that begin so. */
export type TextMatch = string | readonly string[] | { readonly prefix: string }

/** Which subjects are meant; what is left out may be anything. */
export interface SubjectMatch {
  readonly source?: TextMatch | undefined
  /** Of subjects that were reported in the general form. Not together with `timeSlot` or `venueId`. */
  readonly subject?: TextMatch | undefined
  readonly timeSlot?: TextMatch | undefined
  readonly venueId?: TextMatch | undefined
}

/** A match that can be asked. */
export interface Matcher {
  /** Whether any subject of this source and group can match. */
  isNear(source: string, group: string): boolean
  isName(name: string): boolean
}

const fields = placeKeys
const maxListed = 1_000

/** The match as it is kept. */
export function resolveMatch(name: string, match: unknown): SubjectMatch {
  onlyKeys(name, match, fields)
  const given = match as SubjectMatch
  if (given.subject !== undefined && (given.timeSlot !== undefined || given.venueId !== undefined))
    throw bothForms(name)
  const whole: { -readonly [Key in keyof SubjectMatch]: SubjectMatch[Key] } = {}
  for (const field of fields)
    if (given[field] !== undefined) whole[field] = resolveText(`${name}.${field}`, given[field])
  return whole
}

function resolveText(name: string, value: unknown): TextMatch {
  if (typeof value === 'string') return text(name, value)
  if (Array.isArray(value) && value.length >= 1 && value.length <= maxListed)
    return value.map((item, index) => text(`${name}[${index}]`, item))
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    onlyKeys(name, value, ['prefix'])
    return { prefix: text(`${name}.prefix`, (value as { prefix?: unknown }).prefix) }
  }
  throw invalidArgument(
    `${name} must be text, a list of 1 to ${maxListed} texts or { prefix }, not ${show(value)}.`,
    name,
  )
}

export function createMatcher({ source, subject, timeSlot, venueId }: SubjectMatch): Matcher {
  const isSource = createTest(source)
  const isGroup = createGroupTest(subject, timeSlot, venueId)
  return {
    isNear: (theirs, group) => isSource(theirs) && isGroup(group),
    isName: createTest(subject ?? venueId),
  }
}

/** Subjects of the general form have an empty group, venues never. */
function createGroupTest(
  subject: TextMatch | undefined,
  timeSlot: TextMatch | undefined,
  venueId: TextMatch | undefined,
): (group: string) => boolean {
  if (subject !== undefined) return (group) => group === ''
  if (timeSlot !== undefined) return createTest(timeSlot)
  return venueId === undefined ? () => true : (group) => group !== ''
}

function createTest(match: TextMatch | undefined): (value: string) => boolean {
  if (match === undefined) return () => true
  if (typeof match === 'string') return (value) => value === match
  if ('prefix' in match) return (value) => value.startsWith(match.prefix)
  const listed = new Set(match)
  return (value) => listed.has(value)
}
