import type { Job } from './job.ts'
import { parseSearch } from './searchparse.ts'
import { type Scanned, type ScannedStore, scanJobs } from './searchscan.ts'
import type { SearchTerm } from './searchterm.ts'
import type { JobRecord, ListQuery } from './store.ts'

/** What a search found, and how far it looked. */
export interface SearchPage extends Scanned {
  readonly items: readonly Job[]
}

/** What one page of a search looks at, at most: somebody waits for it, and may go on from where it stopped. */
export const searchBounds = { minRows: 2_000, maxRows: 50_000, maxMs: 120 } as const
/** The same for a count, which has no next page. */
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

/** How many jobs a search means, as far as it looked. */
export async function countMatches(
  store: ScannedStore,
  search: string,
  limit: number | null,
): Promise<Omit<Scanned, 'cursor'> & { readonly matched: number }> {
  let matched = 0
  const terms = parseSearch(search)
  const scan = { terms, now: Date.now(), query: {}, bounds: countBounds }
  const { scanned, stopped } = await scanJobs(store, scan, () => ++matched !== limit)
  return { matched, scanned, stopped }
}
