import type { CallerTransaction } from '../core/caller-transaction.ts'
import type { Duration } from '../core/duration.ts'
import { invalidArgument } from '../core/errors.ts'
import { duration, oneOf, onlyKeys, show, text } from '../core/options.ts'
import { canonicalJson, digestParts, digestState } from './digest.ts'
import type { WindowAsk } from './guard-store.ts'

/** A state that may be notified. */
export interface Sighting {
  /** The subject of the state: 1 to 16 texts, such as source, time slot and venue. */
  readonly subject: readonly string[]
  /** The present state: any JSON value; the order of its properties does not matter. */
  readonly state: unknown
  /** The state before; required with `by: 'transition'`. */
  readonly from?: unknown
}

export interface SeenOptions {
  /** How long repeats are not notified, measured from the first sighting. @default 300_000 */
  readonly windowMs?: Duration | undefined
  /**
   * What counts as a repeat. `state`: the same state within the window, even after other states. `last`: the same
   * state as the last notified one. `transition`: the same change from one state to another. @default 'state'
   */
  readonly by?: 'state' | 'last' | 'transition' | undefined
  /** Your transaction: the window opens when it commits. Needs guards in SQL. */
  readonly tx?: CallerTransaction | undefined
}

const year = 31_536_000_000

/** Checks a sighting and computes its window. */
export function resolveSighting(
  sighting: Sighting,
  options: SeenOptions,
): WindowAsk & Pick<Sighting, 'subject'> {
  onlyKeys('seen', sighting, ['subject', 'state', 'from'])
  onlyKeys('seen', options, ['windowMs', 'by', 'tx'])
  const by = oneOf('seen.by', options.by ?? 'state', ['state', 'last', 'transition'])
  const windowMs = duration('seen.windowMs', options.windowMs ?? 300_000, { min: 1, max: year })
  const subject = resolveSubject(sighting.subject)
  const state = digestState('seen.state', sighting.state)
  if (sighting.from === undefined && by === 'transition') {
    throw invalidArgument(
      'seen with by: "transition" needs `from`, the state before. Use null if there was none.',
      'seen.from',
    )
  }
  switch (by) {
    case 'state':
      return { subject, window: digestParts(['seen.state.1', ...subject, state]), value: '', windowMs }
    case 'last':
      return { subject, window: digestParts(['seen.last.1', ...subject]), value: state, windowMs }
    case 'transition': {
      const from = digestState('seen.from', sighting.from)
      const window = digestParts(['seen.transition.1', ...subject, from, state])
      return { subject, window, value: '', windowMs }
    }
  }
}

function resolveSubject(subject: unknown): readonly string[] {
  if (Array.isArray(subject) && subject.length >= 1 && subject.length <= 16)
    return subject.map((part, index) => text(`seen.subject[${index}]`, part))
  throw invalidArgument(
    `seen.subject must be an array of 1 to 16 texts, not ${show(subject)}.`,
    'seen.subject',
  )
}

/** A change of a subject's state. As in a report, the subject has the general form, or names a venue. */
export type ChangeEvent = StateChange &
  (
    | { readonly source: string; readonly subject: string }
    | { readonly source: string; readonly timeSlot: string; readonly venueId: string }
  )

interface StateChange {
  /** The states before and after: any JSON value. */
  readonly from: unknown
  readonly to: unknown
  /**
   * Distinguishes equal changes by a fact that all observers share, such as the source's version or run, but never an
   * observer's clock. Without it all equal changes have one id, and are one event as long as the id is claimed.
   */
  readonly at?: string | number | undefined
}

/** The name of a change, the same for all observers: SHA-256 in hexadecimal. */
export function eventId(event: ChangeEvent): string {
  onlyKeys('eventId', event, ['source', 'subject', 'timeSlot', 'venueId', 'from', 'to', 'at'])
  const { source, from, to, at } = event
  return digestParts([
    'event.1',
    text('eventId.source', source),
    ...resolveEventSubject(event),
    canonicalJson('eventId.from', from),
    canonicalJson('eventId.to', to),
    ...(at === undefined ? [] : [resolveAt(at)]),
  ])
}

/** The group and the name of the subject. A subject in the general form has no group. */
function resolveEventSubject(event: ChangeEvent): readonly string[] {
  if (!('subject' in event))
    return [text('eventId.timeSlot', event.timeSlot), text('eventId.venueId', event.venueId)]
  if (!('timeSlot' in event) && !('venueId' in event)) return ['', text('eventId.subject', event.subject)]
  throw invalidArgument('eventId has fields of both forms. Give subject, or timeSlot and venueId.')
}

function resolveAt(at: unknown): string {
  if (typeof at === 'string' && at !== '' && at.length <= 1_024 && at.isWellFormed())
    return JSON.stringify(at)
  if (typeof at === 'number' && Number.isFinite(at)) return JSON.stringify(at)
  throw invalidArgument(
    `eventId.at must be text of 1 to 1,024 characters or a number, not ${show(at)}.`,
    'eventId.at',
  )
}
