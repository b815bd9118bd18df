import type { JobState } from '../job.ts'

/**
 * A search as data: terms that must all hold. Words become this in parse-search.ts and words again in format-search.ts;
 * match-search.ts asks a job. The same few words serve the library, HTTP, the command line and the dashboard.
 */
export type SearchTerm = TextTerm | NameTerm | StateTerm | InstantTerm | AttemptTerm | ErrorTerm | PayloadTerm

interface Negatable {
  /** It holds for jobs for which the rest does not. */
  readonly negated: boolean
}

/** Somewhere in payload, kind, id or error, whatever its case. */
export interface TextTerm extends Negatable {
  readonly field: 'text'
  readonly text: string
}

/** What a name is compared with, byte by byte. `{ text: '', prefix: true }`, written `*`, holds for whatever is there. */
export interface Pattern {
  readonly text: string
  /** It need only begin so. */
  readonly prefix: boolean
}

export const nameFields = ['id', 'kind', 'queue', 'key', 'tag'] as const
export interface NameTerm extends Negatable {
  readonly field: (typeof nameFields)[number]
  readonly pattern: Pattern
}

export interface StateTerm extends Negatable {
  readonly field: 'state'
  readonly state: JobState
}

export const instantFields = ['created', 'run', 'started', 'finished'] as const
export interface InstantTerm extends Negatable {
  readonly field: (typeof instantFields)[number]
  readonly comparison: Comparison
  /** Epoch milliseconds, or milliseconds from the moment of the search. */
  readonly instant: { readonly at: number } | { readonly fromNowMs: number }
}

export interface AttemptTerm extends Negatable {
  readonly field: 'attempt'
  readonly comparison: Comparison | '='
  readonly count: number
}

/** Somewhere in what went wrong, whatever its case; null, written `*`: something did. */
export interface ErrorTerm extends Negatable {
  readonly field: 'error'
  readonly text: string | null
}

/** A value inside the payload. Numbers, true, false and null are compared as JSON writes them; a list by its items. */
export interface PayloadTerm extends Negatable {
  readonly field: 'payload'
  /** The names on the way to it; none: the payload itself. */
  readonly path: readonly string[]
  readonly pattern: Pattern
}

export const comparisons = ['<=', '>=', '<', '>'] as const
export type Comparison = (typeof comparisons)[number]

/** How much of it is read. */
export const searchLimits = { maxChars: 2_000, maxTerms: 50 } as const
