import { type Job, type JobState, jobStates } from '../job.ts'
import type { JobRecord, ListQuery } from '../job-store.ts'
import { parseSearch } from './parse-search.ts'
import { type Scanned, type ScannedStore, scanJobs } from './scan-jobs.ts'
import type { SearchTerm } from './search-term.ts'

/** What a search found, and how far it looked. */
export interface SearchPage extends Scanned {
  readonly items: readonly Job[]
}

/** What one page of a search looks at, at most: somebody waits for it, and may go on from where it stopped. */
export const searchBounds = { minRows: 2_000, maxRows: 50_000, maxMs: 120 } as const
/** The same for one part of a count; the caller may continue from its cursor. */
const countBounds = { maxRows: 50_000, maxMs: 2_000 } as const

/** A page that has so many characters ends there, whatever its limit. */
const maxPageChars = 4 * 1_048_576

/** A page of the jobs that a search means, newest first, and how far it looked. */
export async function searchPage(
  store: ScannedStore,
  terms: readonly SearchTerm[],
  { limit, ...query }: ListQuery,
): Promise<Scanned & { readonly records: readonly JobRecord[] }> {
  const records: JobRecord[] = []
  let chars = 0
  const scanned = await scanJobs(store, { terms, now: Date.now(), query, bounds: searchBounds }, (record) => {
    records.push(record)
    chars += record.payload.length + (record.result?.length ?? 0)
    return records.length < limit && chars < maxPageChars
  })
  return { ...scanned, records }
}

/** How many jobs a search matches, by state, as far as it looked. */
export interface MatchCount extends Scanned {
  readonly matched: number
  readonly states: Readonly<Record<JobState, number>>
}

/** Counts from `before`, or from the newest job. The cursor is null when every job was looked at. */
export async function countMatches(
  store: ScannedStore,
  search: string,
  { limit, before }: { readonly limit: number | null; readonly before: string | null },
): Promise<MatchCount> {
  let matched = 0
  const states = Object.fromEntries(jobStates.map((state) => [state, 0])) as Record<JobState, number>
  const query = before === null ? {} : { before }
  const scan = { terms: parseSearch(search), now: Date.now(), query, bounds: countBounds }
  const { scanned, stopped, cursor } = await scanJobs(store, scan, ({ state }) => {
    states[state]++
    return ++matched !== limit
  })
  return { matched, states, scanned, stopped, cursor: stopped === null ? null : cursor }
}
