import { createIds, decodeIdTime, isId } from '../../core/ids.ts'
import { isReserved } from '../api/add-options.ts'
import { type Job, type JobState, jobStates } from '../job.ts'
import type { JobRecord, JobStore, ListQuery } from '../job-store.ts'
import { ListedRows } from './list-jobs.ts'
import { createMatcher } from './match-search.ts'
import { type NameField, parseSearch, type SearchTerm } from './search-terms.ts'

/**
 * A scan reads jobs, newest first, and passes matching jobs to the caller. It ends at a limit of rows or of time and
 * returns its position and the reason, so that the caller can continue. No store knows the grammar. The scan reads
 * small pages and yields the thread between them, so that a search does not delay other work of the process.
 */
export interface Scan {
  readonly terms: readonly SearchTerm[]
  /** Spans such as `-2h` count from here, in epoch milliseconds. */
  readonly now: number
  readonly query: Omit<ListQuery, 'limit'>
  readonly bounds: ScanBounds
}

export interface ScanBounds {
  readonly maxRows: number
  readonly maxMs: number
  /** `maxMs` counts only after this many rows, so that a small store is always read completely. @default 0 */
  readonly minRows?: number
  /** The number of rows in the first read. @default 50 */
  readonly firstRead?: number
}

/** How far a scan came. */
export interface Scanned {
  /** The last job that was read; null: no more jobs. */
  readonly cursor: string | null
  /** How many jobs were read. */
  readonly scanned: number
  /** The limit that ended the scan; null: the caller has enough, or there are no more jobs. */
  readonly stopped: 'rows' | 'time' | null
}

export type ScannedStore = Pick<JobStore, 'find' | 'list' | 'reach'>

/** Calls `take` with each matching job. `take` returns false when it has enough. */
export async function scanJobs(
  store: ScannedStore,
  { terms, now, query, bounds }: Scan,
  take: (record: JobRecord) => boolean,
): Promise<Scanned> {
  const matches = createMatcher(terms, now)
  const filters = filtersOf(terms)
  const queue = query.queue ?? filters.queue
  const isWanted = (record: JobRecord): boolean =>
    (queue !== undefined || !isReserved(record.queue)) && matches(record)
  const id = exactly(terms, 'id')
  if (id !== undefined) return scanOne(store, id, query, isWanted, take)

  const { earliest, latest } = createdBetween(terms, now)
  const pace = new Pace(bounds.firstRead)
  const beganAt = performance.now()
  const rows = new ListedRows(store, { ...filters, ...query })
  let scanned = 0
  for (;;) {
    const limit = Math.min(pace.pageSize, bounds.maxRows - scanned)
    const page = await pace.read(() => rows.list(limit))
    for (const record of page) {
      scanned++
      if (earliest !== undefined && isBefore(earliest - skewMs, record))
        return { cursor: null, scanned, stopped: null }
      if (isWanted(record) && !take(record)) return { cursor: record.id, scanned, stopped: null }
      if (pace.isTurnOver()) await pace.rest()
    }
    if (page.length < limit && !(await rows.next())) return { cursor: null, scanned, stopped: null }
    if (scanned >= bounds.maxRows) return { cursor: rows.before!, scanned, stopped: 'rows' }
    const passed = Math.max(scanned, rows.passed)
    if (passed >= (bounds.minRows ?? 0) && performance.now() - beganAt >= bounds.maxMs)
      return { cursor: rows.before!, scanned: passed, stopped: 'time' }
    const last = page.at(-1)
    if (last !== undefined && page.length === limit) rows.before = skipTo(latest, last)
    await pace.rest()
  }
}

async function scanOne(
  store: Pick<JobStore, 'find'>,
  id: string,
  { queue, kind, state, before }: Scan['query'],
  isWanted: (record: JobRecord) => boolean,
  take: (record: JobRecord) => boolean,
): Promise<Scanned> {
  const record = before === undefined || id < before ? await store.find(id) : undefined
  if (record === undefined) return { cursor: null, scanned: 0, stopped: null }
  const isListed =
    (queue ?? record.queue) === record.queue &&
    (kind ?? record.kind) === record.kind &&
    (state ?? record.state) === record.state
  if (isListed && isWanted(record)) take(record)
  return { cursor: null, scanned: 1, stopped: null }
}

/** The part of a search that the store filters by. */
function filtersOf(terms: readonly SearchTerm[]): Pick<ListQuery, 'queue' | 'kind' | 'state'> {
  const queue = exactly(terms, 'queue')
  const kind = exactly(terms, 'kind')
  const state = terms.find((term) => term.field === 'state' && !term.negated)
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(kind === undefined ? {} : { kind }),
    ...(state?.field === 'state' ? { state: state.state } : {}),
  }
}

/** The full name that a term of this field requires, if there is one. */
export function exactly(terms: readonly SearchTerm[], field: NameField): string | undefined {
  for (const term of terms)
    if (term.field === field && !term.negated && !term.pattern.prefix) return term.pattern.text
  return undefined
}

/** The largest accepted difference between the clock of the ids and the clock of `createdAt`. */
const skewMs = 3_600_000

function createdBetween(
  terms: readonly SearchTerm[],
  now: number,
): { readonly earliest: number | undefined; readonly latest: number | undefined } {
  let earliest: number | undefined
  let latest: number | undefined
  for (const term of terms) {
    if (term.field !== 'created' || term.negated) continue
    const at = 'at' in term.instant ? term.instant.at : now + term.instant.fromNowMs
    if (term.comparison.startsWith('>')) earliest = Math.max(earliest ?? at, at)
    else latest = Math.min(latest ?? at, at)
  }
  return { earliest, latest }
}

/**
 * Whether this job, and so every later job of the scan, was added before that moment. The time in its id must agree: a
 * machine whose clock is ahead makes ids that the scan reads before newer jobs.
 */
function isBefore(moment: number, { id, createdAt }: JobRecord): boolean {
  return createdAt < moment && (!isId(id) || decodeIdTime(id) < moment)
}

/**
 * Returns the id to continue from. It skips jobs that are too new, if the times in ids agree with the store's clock.
 */
function skipTo(latest: number | undefined, { id, createdAt }: JobRecord): string {
  if (latest === undefined || createdAt <= latest + 2 * skewMs || !isId(id)) return id
  const madeAt = decodeIdTime(id)
  if (Math.abs(madeAt - createdAt) > skewMs) return id
  const at = Math.max(0, latest + 2 * skewMs)
  const first = at < madeAt ? createIds({ now: () => at })() : id
  return first < id ? first : id
}

/** The longest time before the scan lets other work of this thread run. */
const turnMs = 2.5
const maxPage = 500
const minPage = 10
/** A row may have half a megabyte. */
const maxPageChars = 1_048_576

/** Chooses the page size so that reading a page blocks the thread only shortly. */
class Pace {
  pageSize: number
  #turnBeganAt = performance.now()

  constructor(pageSize = 50) {
    this.pageSize = pageSize
  }

  async read(list: () => Promise<readonly JobRecord[]>): Promise<readonly JobRecord[]> {
    let hasTurned = false
    const turning = setImmediate(() => {
      hasTurned = true
    })
    const beganAt = performance.now()
    const reading = list()
    const tookMs = performance.now() - beganAt
    try {
      const page = await reading
      if (hasTurned) this.#turnBeganAt = performance.now()
      this.#adjust(page, tookMs)
      return page
    } finally {
      clearImmediate(turning)
    }
  }

  isTurnOver(): boolean {
    return performance.now() - this.#turnBeganAt > turnMs
  }

  /** Lets other work of this thread run. */
  async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#turnBeganAt = performance.now()
  }

  /** Adjusts the page size by the time that the last page took in this thread, and by the size of its rows. */
  #adjust(page: readonly JobRecord[], tookMs: number): void {
    if (page.length === 0) return
    const chars = page.reduce((sum, { payload, result }) => sum + payload.length + (result?.length ?? 0), 0)
    const byTime = (page.length * turnMs * 0.7) / Math.max(tookMs, 0.01)
    const bySize = (page.length * maxPageChars) / Math.max(chars, 1)
    const wanted = Math.min(byTime, bySize, this.pageSize * 2, maxPage)
    this.pageSize = Math.max(minPage, Math.floor(wanted))
  }
}

/** A page of found jobs, and the position of the search. */
export interface SearchPage extends Scanned {
  readonly items: readonly Job[]
}

/** The limits of one search page. The caller can continue at its cursor. */
const searchBounds = { minRows: 2_000, maxRows: 50_000, maxMs: 120 } as const
/** The limits of one part of a count. The caller can continue at its cursor. */
const countBounds = { maxRows: 50_000, maxMs: 2_000 } as const

/** A page of a search also ends at this size. */
const maxAnswerChars = 4 * 1_048_576

/** Returns a page of matching jobs, newest first. */
export async function searchPage(
  store: ScannedStore,
  terms: readonly SearchTerm[],
  { limit, ...query }: ListQuery,
  { maxChars = maxAnswerChars, ...bounds }: ScanBounds & { readonly maxChars?: number } = searchBounds,
): Promise<Scanned & { readonly records: readonly JobRecord[] }> {
  const records: JobRecord[] = []
  let chars = 0
  const scanned = await scanJobs(store, { terms, now: Date.now(), query, bounds }, (record) => {
    records.push(record)
    chars += record.payload.length + (record.result?.length ?? 0)
    return records.length < limit && chars < maxChars
  })
  return { ...scanned, records }
}

/**
 * A page of a list ends after `maxMs`, but not before it read `minRows`: a store of that size is always listed
 * completely.
 */
const listBounds = { minRows: 50_000, maxMs: 80 } as const
/** The most rows that a list page reads to replace jobs that it leaves out. */
const maxListRows = 2_000

/**
 * Returns a page of jobs, without jobs of Signalbox's own queues unless the query names one. A short page need not be
 * the last: only a null cursor marks the end.
 */
export async function listPage(
  store: ScannedStore,
  query: ListQuery,
  times: { readonly minRows: number; readonly maxMs: number } = listBounds,
): Promise<Pick<Scanned, 'cursor'> & Partial<Scanned> & { readonly records: readonly JobRecord[] }> {
  const bounds = {
    ...times,
    maxRows: maxListRows,
    maxChars: Number.POSITIVE_INFINITY,
    firstRead: query.limit,
  }
  const { records, cursor, scanned, stopped } = await searchPage(store, [], query, bounds)
  return { records, cursor, ...(stopped === 'time' && { scanned, stopped }) }
}

/** The number of matching jobs, by state, as far as the count read. */
export interface MatchCount extends Scanned {
  readonly matched: number
  readonly states: Readonly<Record<JobState, number>>
}

/** Counts from `before`, or from the newest job. The cursor is null when all jobs were read. */
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
