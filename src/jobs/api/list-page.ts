import type { JobRecord, JobStore, ListQuery } from '../job-store.ts'
import { needsWindows, Windows } from '../search/id-windows.ts'
import type { Scanned } from '../search/scan-jobs.ts'
import { isReserved } from './add-options.ts'

/** How many rows of other queues are looked past for one page. */
const maxLookedPast = 2_000
/** Each may have half a megabyte, so that not many are looked at together. */
const lookSize = 100
/**
 * A page that looks for what is rare among very many ends after `maxMs`: somebody waits for it, and may ask for the next.
 * But not before so many were looked at: a store of that size is listed whole, however slow the moment is.
 */
const listBounds: ListBounds = { minRows: 50_000, maxMs: 80 }

interface ListBounds {
  readonly minRows: number
  readonly maxMs: number
}

export interface ListPage extends Partial<Pick<Scanned, 'scanned' | 'stopped'>> {
  readonly records: readonly JobRecord[]
  readonly cursor: string | null
}

/**
 * A page of the jobs that users have to do with: those of Signalbox's own queues are left out unless one is named. The
 * store knows nothing of that, so the page is filled from as many of its pages as it takes, up to a bound: one that is
 * short is the last only if its cursor says so.
 */
export async function listPage(
  store: Pick<JobStore, 'list' | 'reach'>,
  query: ListQuery,
  bounds: ListBounds = listBounds,
): Promise<ListPage> {
  if (needsWindows(query)) return windowedPage(store, query, bounds)
  const records: JobRecord[] = []
  let before = query.before
  for (let looked = 0; ; ) {
    // The first look is as large as the page; only where much is left out are the next ones larger.
    const limit = looked === 0 ? query.limit : Math.max(query.limit, lookSize)
    const page = await store.list({ ...query, limit, ...(before === undefined ? {} : { before }) })
    looked += page.length
    for (const record of page) {
      before = record.id
      if (query.queue === undefined && isReserved(record.queue)) continue
      records.push(record)
      if (records.length === query.limit) return { records, cursor: record.id }
    }
    if (page.length < limit) return { records, cursor: null }
    if (looked >= maxLookedPast) return { records, cursor: before! }
  }
}

/** The same for what no index leads to. */
async function windowedPage(
  store: Pick<JobStore, 'list' | 'reach'>,
  query: ListQuery,
  { minRows, maxMs }: ListBounds,
): Promise<ListPage> {
  const records: JobRecord[] = []
  const windows = new Windows(store, query.before)
  const beganAt = performance.now()
  for (;;) {
    for (;;) {
      // One more for each of our own that is left out would not be known before; the next look finds the rest.
      const limit = query.limit - records.length
      const page = await windows.list({ ...query, limit })
      for (const record of page) {
        if (query.queue !== undefined || !isReserved(record.queue)) records.push(record)
      }
      if (records.length === query.limit) return { records, cursor: page.at(-1)!.id }
      if (page.length < limit) break
    }
    if (!(await windows.next())) return { records, cursor: null }
    if (windows.passed >= minRows && performance.now() - beganAt >= maxMs)
      return { records, cursor: windows.before!, scanned: windows.passed, stopped: 'time' }
  }
}
