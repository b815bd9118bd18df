import type { ReactNode } from 'react'
import { Input } from '../../kit/field.tsx'
import { Text } from '../../kit/text/text.tsx'
import { go, Link, type Query, usePlace } from '../../shell/router.tsx'
import { useWords } from '../../words/language.tsx'
import { monitorWords } from '../../words/monitor.ts'

/** One venue of one source, in one time slot. */
export interface Venue {
  readonly source: string
  readonly timeSlot: string
  readonly venueId: string
}

/** The venue that an address names: all of it, or none. */
export function placeOf({ source, timeSlot, venueId }: Query): Venue | undefined {
  return source && timeSlot && venueId ? { source, timeSlot, venueId } : undefined
}

/** A venue's name, which leads to its story, and where it is. */
export function VenueName({ venue }: { readonly venue: Venue }): ReactNode {
  const { source, timeSlot, venueId } = venue
  return (
    <span className="monitor-venue">
      <Link to="monitor" query={{ source, timeSlot, venueId }}>
        <Text value={venueId} cut />
      </Link>
      <span className="aside">
        <Text value={`${source} · ${timeSlot}`} cut />
      </span>
    </span>
  )
}

const fields = ['source', 'timeSlot', 'venueId'] as const

/** Filters by one venue: the server takes its three names together. */
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
