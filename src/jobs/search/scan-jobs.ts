import { createIds, decodeIdTime, isId } from '../../core/ids.ts'
import { isReserved } from '../api/add-options.ts'
import type { JobRecord, JobStore, ListQuery } from '../job-store.ts'
import { needsWindows, Windows } from './id-windows.ts'
import { createMatcher } from './match-search.ts'
import type { NameTerm, SearchTerm } from './search-term.ts'

/**
 * Walks jobs, newest first, and shows those that a search means, within a bound of rows and of time: it says where and
 * why it stopped, and whoever wants more goes on from there. No store has to know the grammar. It takes small pages and
 * leaves the thread between them, so that nothing else in the process waits for a search.
 */
export interface Scan {
  readonly terms: readonly SearchTerm[]
  /** What spans count from, in epoch milliseconds. */
  readonly now: number
  readonly query: Omit<ListQuery, 'limit'>
  readonly bounds: ScanBounds
}

export interface ScanBounds {
  readonly maxRows: number
  readonly maxMs: number
  /** So many are looked at whatever time it takes: on a slow moment of a small store nothing is left out. @default 0 */
  readonly minRows?: number
}

/** How far a scan came. */
export interface Scanned {
  /** The last job that was looked at; null: there are no more. */
  readonly cursor: string | null
  /** How many jobs were looked at. */
  readonly scanned: number
  /** The bound that ended it; null: nobody wanted more, or there are no more. */
  readonly stopped: 'rows' | 'time' | null
}

export type ScannedStore = Pick<JobStore, 'find' | 'list' | 'reach'>

/** `take` answers false when it wants no more. */
export async function scanJobs(
  store: ScannedStore,
  { terms, now, query, bounds }: Scan,
  take: (record: JobRecord) => boolean,
): Promise<Scanned> {
  const matches = createMatcher(terms, now)
  const named = namedBy(terms)
  const queue = query.queue ?? named.queue
  const isMeant = (record: JobRecord): boolean =>
    (queue !== undefined || !isReserved(record.queue)) && matches(record)
  const id = exactly(terms, 'id')
  if (id !== undefined) return scanOne(store, id, query, isMeant, take)

  const { earliest, latest } = createdBetween(terms, now)
  const pace = new Pace()
  const beganAt = performance.now()
  const narrowed = { ...named, ...query }
  const pages = needsWindows(narrowed) ? new Windows(store, query.before) : new Pages(store, query.before)
  let scanned = 0
  for (;;) {
    const limit = Math.min(pace.pageSize, bounds.maxRows - scanned)
    const page = await pace.read(() => pages.list({ ...narrowed, limit }))
    for (const record of page) {
      scanned++
      if (earliest !== undefined && isBefore(earliest - skewMs, record))
        return { cursor: null, scanned, stopped: null }
      if (isMeant(record) && !take(record)) return { cursor: record.id, scanned, stopped: null }
      if (pace.isLong()) await pace.rest()
    }
    if (page.length < limit && !(await pages.next())) return { cursor: null, scanned, stopped: null }
    if (scanned >= bounds.maxRows) return { cursor: pages.before!, scanned, stopped: 'rows' }
    const passed = Math.max(scanned, pages.passed)
    if (passed >= (bounds.minRows ?? 0) && performance.now() - beganAt >= bounds.maxMs)
      return { cursor: pages.before!, scanned: passed, stopped: 'time' }
    const last = page.at(-1)
    if (last !== undefined && page.length === limit) pages.before = skipTo(latest, last)
    await pace.rest()
  }
}

/** All that a list has, page by page, where the store finds it directly. */
class Pages {
  readonly #store: Pick<JobStore, 'list'>
  readonly passed = 0
  before: string | undefined

  constructor(store: Pick<JobStore, 'list'>, before: string | undefined) {
    this.#store = store
    this.before = before
  }

  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    const { before } = this
    const page = await this.#store.list({ ...query, ...(before === undefined ? {} : { before }) })
    this.before = page.at(-1)?.id ?? before
    return page
  }

  async next(): Promise<boolean> {
    return false
  }
}

async function scanOne(
  store: Pick<JobStore, 'find'>,
  id: string,
  { queue, kind, state, before }: Scan['query'],
  isMeant: (record: JobRecord) => boolean,
  take: (record: JobRecord) => boolean,
): Promise<Scanned> {
  const record = before === undefined || id < before ? await store.find(id) : undefined
  if (record === undefined) return { cursor: null, scanned: 0, stopped: null }
  const isListed =
    (queue ?? record.queue) === record.queue &&
    (kind ?? record.kind) === record.kind &&
    (state ?? record.state) === record.state
  if (isListed && isMeant(record)) take(record)
  return { cursor: null, scanned: 1, stopped: null }
}

/** What a store can ask of its rows by itself. */
function namedBy(terms: readonly SearchTerm[]): Pick<ListQuery, 'queue' | 'kind' | 'state'> {
  const queue = exactly(terms, 'queue')
  const kind = exactly(terms, 'kind')
  const state = terms.find((term) => term.field === 'state' && !term.negated)
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(kind === undefined ? {} : { kind }),
    ...(state?.field === 'state' ? { state: state.state } : {}),
  }
}

/** The name that such a term asks for, if one does and does so whole. */
export function exactly(terms: readonly SearchTerm[], field: NameTerm['field']): string | undefined {
  for (const term of terms)
    if (term.field === field && !term.negated && !term.pattern.prefix) return term.pattern.text
  return undefined
}

/** How far apart the clocks are that ids and `createdAt` are made by, at most. */
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
 * Whether this job, and so all that follow it, were added before that moment. Its id must say so too, where it tells the
 * time: one of a machine whose clock is ahead stands before jobs that are newer than it is.
 */
function isBefore(moment: number, { id, createdAt }: JobRecord): boolean {
  return createdAt < moment && (!isId(id) || decodeIdTime(id) < moment)
}

/**
 * Where to go on after this job: past all that are too new, where ids tell. They do unless the store's clock is another
 * one than that of whoever makes ids, as in tests.
 */
function skipTo(latest: number | undefined, { id, createdAt }: JobRecord): string {
  if (latest === undefined || createdAt <= latest + 2 * skewMs || !isId(id)) return id
  const madeAt = decodeIdTime(id)
  if (Math.abs(madeAt - createdAt) > skewMs) return id
  const at = Math.max(0, latest + 2 * skewMs)
  const first = at < madeAt ? createIds({ now: () => at })() : id
  return first < id ? first : id
}

/** The most that is done before others in this thread have their turn. */
const turnMs = 2.5
const maxPage = 500
const minPage = 10
/** Rows may have half a megabyte each. */
const maxPageChars = 1_048_576

/** Pages as large as can be read in one short turn. */
class Pace {
  pageSize = 50
  #turnBeganAt = performance.now()

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

  isLong(): boolean {
    return performance.now() - this.#turnBeganAt > turnMs
  }

  /** Lets others have a turn. */
  async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    this.#turnBeganAt = performance.now()
  }

  /** By what the last one took of this thread, and by how large its rows were. */
  #adjust(page: readonly JobRecord[], tookMs: number): void {
    if (page.length === 0) return
    const chars = page.reduce((sum, { payload, result }) => sum + payload.length + (result?.length ?? 0), 0)
    const byTime = (page.length * turnMs * 0.7) / Math.max(tookMs, 0.01)
    const bySize = (page.length * maxPageChars) / Math.max(chars, 1)
    const wanted = Math.min(byTime, bySize, this.pageSize * 2, maxPage)
    this.pageSize = Math.max(minPage, Math.floor(wanted))
  }
}
