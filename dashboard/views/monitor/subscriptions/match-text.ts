import { visible } from '../../../kit/text/visible.ts'
import type { Say } from '../../../words/catalogue.ts'
import type { monitorWords } from '../../../words/monitor.ts'
import type { Subscription } from './subscriber-names.ts'

export type Match = Subscription['match']
export type MatchField = 'source' | 'subject' | 'timeSlot' | 'venueId'

export const matchFields: readonly MatchField[] = ['source', 'subject', 'timeSlot', 'venueId']

/** How many names of a list are shown. */
const mostNamed = 5

/** What a match is about, in words. */
export function sayMatch(match: Match, say: Say<typeof monitorWords>): string {
  const clauses = matchFields.flatMap((field) => {
    const wanted = match[field]
    if (wanted === undefined) return []
    const name = fieldName(field, say)
    if (typeof wanted === 'string') return [say('matchIs', { field: name, value: visible(wanted) })]
    if ('prefix' in wanted) return [say('matchPrefix', { field: name, value: visible(wanted.prefix) })]
    const more = wanted.length > mostNamed ? '…' : ''
    const value = wanted.slice(0, mostNamed).map(visible).join(', ') + more
    return [say('matchOneOf', { field: name, value })]
  })
  return clauses.length === 0 ? say('everything') : clauses.join(' · ')
}

export function fieldName(field: MatchField, say: Say<typeof monitorWords>): string {
  return say(field === 'venueId' ? 'venue' : field)
}

/** How one field of a match is written in a form. */
export interface WrittenMatch {
  readonly how: 'anything' | 'is' | 'beginsWith' | 'oneOf'
  readonly value: string
}

export type WrittenMatches = Readonly<Record<MatchField, WrittenMatch>>

export const anything: WrittenMatch = { how: 'anything', value: '' }
export const everything: WrittenMatches = {
  source: anything,
  subject: anything,
  timeSlot: anything,
  venueId: anything,
}

/** Reads a form; throws a message for a missing field. */
export function matchOf(written: WrittenMatches, say: Say<typeof monitorWords>): Match {
  const read: [MatchField, Match[MatchField]][] = []
  for (const field of matchFields) {
    const { how, value } = written[field]
    if (how === 'anything') continue
    const list = value.split(',').map((one) => one.trim())
    const named = how === 'oneOf' ? list.filter((one) => one !== '') : [value.trim()]
    if (named.join('') === '') throw new Error(say('valueNeeded', { field: fieldName(field, say) }))
    if (how === 'is') read.push([field, value])
    else if (how === 'beginsWith') read.push([field, { prefix: value }])
    else read.push([field, named])
  }
  return Object.fromEntries(read)
}
