import type { ReactNode } from 'react'
import { Input } from '../../kit/field.tsx'
import { Text } from '../../kit/text/text.tsx'
import { go, Link, type Query, usePlace } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'

/** A subject of a source: `subject`, or a venue by `timeSlot` and `venueId`. */
export interface Venue {
  readonly source: string
  readonly subject?: string
  readonly timeSlot?: string
  readonly venueId?: string
}

/** The subject that an address names: all of it, or none. */
export function placeOf({ source, subject, timeSlot, venueId }: Query): Venue | undefined {
  if (source && subject && !timeSlot && !venueId) return { source, subject }
  return source && !subject && timeSlot && venueId ? { source, timeSlot, venueId } : undefined
}

/** The part of an address that names a subject. */
export function placeQuery({ source, subject, timeSlot, venueId }: Venue): Query {
  return subject === undefined ? { source, timeSlot, venueId } : { source, subject }
}

export function nameOf({ subject, venueId }: Venue): string {
  return subject ?? venueId ?? ''
}

/** A subject's name, which leads to its story, and where it is. */
export function VenueName({ venue }: { readonly venue: Venue }): ReactNode {
  const { source, timeSlot } = venue
  return (
    <span className="monitor-venue">
      <Link to="monitor" query={placeQuery(venue)}>
        <Text value={nameOf(venue)} cut />
      </Link>
      <span className="aside">
        <Text value={timeSlot === undefined ? source : `${source} · ${timeSlot}`} cut />
      </span>
    </span>
  )
}

const fields = ['source', 'subject', 'timeSlot', 'venueId'] as const

/** Filters by one subject. The server takes all its names together. */
export function PlaceFilter({ part }: { readonly part: 'decisions' | 'notifications' }): ReactNode {
  const say = useWords(monitorWords)
  const { query } = usePlace()
  const isPart = fields.some((field) => query[field]) && placeOf(query) === undefined
  return (
    <>
      {fields.map((field) => (
        <Input
          bare
          key={field}
          label={say(field === 'venueId' ? 'venue' : field)}
          placeholder={say(field === 'venueId' ? 'venue' : field)}
          value={query[field] ?? ''}
          onChange={(value) =>
            go('monitor', { ...query, part, cursor: undefined, [field]: value }, { replace: true })
          }
        />
      ))}
      {isPart && (
        <p className="aside" role="status">
          {say('onePlace')}
        </p>
      )}
    </>
  )
}
