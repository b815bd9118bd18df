import type { Duration } from '../core/duration.ts'
import { createId } from '../core/ids.ts'
import { duration, onlyKeys, text, whole } from '../core/options.ts'
import { resolveMatch, type SubjectMatch } from './match.ts'
import type { NewSilence, SilenceRecord } from './monitor-store.ts'

/** What is not to be notified for a while. */
export interface SilenceOptions {
  /** Which subjects; what is left out may be anything. @default all */
  readonly match?: SubjectMatch | undefined
  readonly forMs: Duration
  /** An instant (epoch milliseconds, or a Date). @default now */
  readonly startsAt?: number | Date | undefined
  /** Why, for people. @default none */
  readonly comment?: string | undefined
}

export interface Silence {
  readonly id: string
  readonly match: SubjectMatch
  readonly comment: string
  readonly startsAt: number
  readonly endsAt: number
}

const year = 31_536_000_000

export function resolveSilence(options: SilenceOptions): NewSilence {
  onlyKeys('silence', options, ['match', 'forMs', 'startsAt', 'comment'])
  const { match = {}, forMs, startsAt, comment = '' } = options
  const instant = startsAt instanceof Date ? startsAt.getTime() : startsAt
  return {
    id: createId(),
    match: JSON.stringify(resolveMatch('silence.match', match)),
    comment: comment === '' ? '' : text('silence.comment', comment),
    startsAt:
      instant === undefined
        ? null
        : whole('silence.startsAt', instant, { max: 8_640_000_000_000_000 - year }),
    forMs: duration('silence.forMs', forMs, { min: 1, max: year }),
  }
}

export function decodeSilence({ match, ...silence }: SilenceRecord): Silence {
  return { ...silence, match: JSON.parse(match) }
}
