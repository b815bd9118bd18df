import { oneOf, onlyKeys, text, whole } from '../../core/options.ts'
import { isReserved } from '../api/add-options.ts'
import { type JobState, jobStates } from '../job.ts'
import type { JobRecord, JobStore, ListQuery, ReachQuery } from '../job-store.ts'
import type { Scanned } from './scan-jobs.ts'
import { parseSearch, type SearchTerm } from './search-terms.ts'

/** Which jobs to list. */
export interface ListOptions {
  readonly queue?: string | undefined
  readonly kind?: string | undefined
  readonly state?: JobState | undefined
  /** Words and fields that must all match: `kind:mail* state:dead payload.order.id:42 "relay is away"`. */
  readonly search?: string | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

export function resolveList(options: ListOptions): ListQuery & { readonly search?: readonly SearchTerm[] } {
  onlyKeys('list', options, ['queue', 'kind', 'state', 'search', 'limit', 'cursor'])
  const { queue, kind, state, search, limit = 50, cursor } = options
  return {
    ...(search === undefined ? {} : { search: parseSearch(search, 'list.search') }),
    ...(queue === undefined ? {} : { queue: text('list.queue', queue) }),
    ...(kind === undefined ? {} : { kind: text('list.kind', kind) }),
    ...(state === undefined ? {} : { state: oneOf('list.state', state, jobStates) }),
    limit: whole('list.limit', limit, { min: 1, max: 500 }),
    ...(cursor === undefined || cursor === null ? {} : { before: text('list.cursor', cursor) }),
  }
}

/** How many rows one page looks at, at most, to fill the places of jobs that it leaves out. */
const maxRead = 2_000
/** A row may have half a megabyte, so one read has few of them. */
const readSize = 100

interface ListBounds {
  readonly minRows: number
  readonly maxMs: number
}

/** A page ends after `maxMs`, but not before it looked at `minRows`: a store of that size is always listed whole. */
const listBounds: ListBounds = { minRows: 50_000, maxMs: 80 }

export interface ListPage extends Partial<Pick<Scanned, 'scanned' | 'stopped'>> {
  readonly records: readonly JobRecord[]
  readonly cursor: string | null
}

/**
 * A page of jobs without those of Signalbox's own queues, unless the query names one. The store does not know this rule,
 * so several reads may fill one page. A page can be short and not the last: only a null cursor marks the end.
 */
export async function listPage(
  store: ListedStore,
  query: ListQuery,
  { minRows, maxMs }: ListBounds = listBounds,
): Promise<ListPage> {
  const records: JobRecord[] = []
  const rows = createRows(store, query)
  const beganAt = performance.now()
  for (let read = 0; ; ) {
    // The first read is as large as the page. Later ones are larger: they follow jobs that were left out.
    const limit = read === 0 ? query.limit : Math.max(query.limit, readSize)
    const page = await rows.list({ ...query, limit })
    read += page.length
    for (const record of page) {
      if (query.queue === undefined && isReserved(record.queue)) continue
      records.push(record)
      if (records.length === query.limit) return { records, cursor: record.id }
    }
    if (page.length < limit && !(await rows.next())) return { records, cursor: null }
    if (read >= maxRead) return { records, cursor: rows.before! }
    if (rows.passed >= minRows && performance.now() - beganAt >= maxMs)
      return { records, cursor: rows.before!, scanned: rows.passed, stopped: 'time' }
  }
}

type ListedStore = Pick<JobStore, 'list' | 'reach'>

/** Rows of a list, newest first. */
interface Rows {
  /** About how many jobs lie above the present window. */
  readonly passed: number
  /** The next read begins below this id. */
  before: string | undefined
  /** Reads on from `before`. A short page is the end of the window. */
  list(query: ListQuery): Promise<readonly JobRecord[]>
  /** Moves to the next window; false: there is none. */
  next(): Promise<boolean>
}

export function createRows(store: ListedStore, query: Omit<ListQuery, 'limit'>): Rows {
  return isIndexed(query) ? new IndexedRows(store, query.before) : new WindowedRows(store, query.before)
}

/** In these states, and in Signalbox's own queues, a store finds jobs by an index. */
const indexedStates: ReadonlySet<unknown> = new Set(['waiting', 'running', 'dead', 'cancelled'])

function isIndexed({ queue, kind, state }: Omit<ListQuery, 'limit'>): boolean {
  if (indexedStates.has(state) || (queue !== undefined && isReserved(queue))) return true
  return queue === undefined && kind === undefined && state === undefined
}

/** Rows that the store finds by an index: one window holds all of them. */
class IndexedRows implements Rows {
  readonly #store: ListedStore
  readonly passed = 0
  before: string | undefined

  constructor(store: ListedStore, before: string | undefined) {
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

/** The size of the first window: nearly always enough. */
const firstRows = 2_000
const maxRows = 50_000
/** How long one window should take: the store may be in this thread. */
const windowMs = 20

/**
 * Rows without an index are read in windows: from one id down to another, with a bounded number of jobs in between. So a
 * read for a rare name takes no longer than one for a common name, and the caller knows how far it came.
 */
class WindowedRows implements Rows {
  readonly #store: ListedStore
  #rows = firstRows
  #floor: Promise<string | null> | undefined
  #beganAt = performance.now()
  passed = 0
  before: string | undefined

  constructor(store: ListedStore, before: string | undefined) {
    this.#store = store
    this.before = before
  }

  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    const { before } = this
    const from = before === undefined ? {} : { before }
    this.#floor ??= this.#store.reach({ ...from, ...among(query), rows: this.#rows })
    const floor = await this.#floor
    const page = await this.#store.list({ ...query, ...from, ...(floor === null ? {} : { downTo: floor }) })
    this.before = page.at(-1)?.id ?? before
    return page
  }

  async next(): Promise<boolean> {
    const floor = await this.#floor
    if (floor === null || floor === undefined) return false
    // The reader may have skipped further down.
    this.before = this.before !== undefined && this.before < floor ? this.before : floor
    this.#floor = undefined
    this.passed += this.#rows
    const tookMs = Math.max(performance.now() - this.#beganAt, 0.1)
    const wanted = (this.#rows * windowMs) / tookMs
    this.#rows = Math.floor(Math.min(maxRows, this.#rows * 4, Math.max(firstRows, wanted)))
    // Other work of this thread gets its turn.
    await new Promise((resolve) => setImmediate(resolve))
    this.#beganAt = performance.now()
    return true
  }
}

function among({ state }: ListQuery): Pick<ReachQuery, 'among'> {
  if (state === undefined) return {}
  return { among: state === 'completed' ? 'ended' : 'live' }
}
