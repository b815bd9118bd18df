import { oneOf, onlyKeys, text, whole } from '../../core/options.ts'
import { isReserved } from '../api/add-options.ts'
import { type JobState, jobStates } from '../job.ts'
import type { JobRecord, JobStore, ListQuery, ReachQuery } from '../job-store.ts'
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

type ListedStore = Pick<JobStore, 'list' | 'reach'>

/** A store finds jobs in these states, and jobs of Signalbox's own queues, by an index. */
const indexedStates: ReadonlySet<unknown> = new Set(['waiting', 'running', 'dead', 'cancelled'])

function isIndexed({ queue, kind, state }: Omit<ListQuery, 'limit'>): boolean {
  if (indexedStates.has(state) || (queue !== undefined && isReserved(queue))) return true
  return queue === undefined && kind === undefined && state === undefined
}

/** The size of the first window: nearly always enough. */
const firstRows = 2_000
const maxRows = 50_000
/** The target time of one window: the store may run in this thread. */
const windowMs = 20

/**
 * The rows of a list, newest first. Without an index, the rows are read in windows: from one id down to another, with a
 * bounded number of jobs in between. So a read for a rare name takes no longer than a read for a common name, and the
 * caller knows how far the read came. Rows that the store finds by an index are one window.
 */
export class ListedRows {
  readonly #store: ListedStore
  readonly #query: Omit<ListQuery, 'limit'>
  readonly #isIndexed: boolean
  #rows = firstRows
  #floor: Promise<string | null> | undefined
  #beganAt = performance.now()
  /** About how many jobs lie above the present window. */
  passed = 0
  /** The next read begins below this id. */
  before: string | undefined

  constructor(store: ListedStore, query: Omit<ListQuery, 'limit'>) {
    this.#store = store
    this.#query = query
    this.#isIndexed = isIndexed(query)
    this.before = query.before
  }

  /** Reads the rows below `before`. A short page is the end of the window. */
  async list(limit: number): Promise<readonly JobRecord[]> {
    const { before } = this
    const from = before === undefined ? {} : { before }
    if (!this.#isIndexed)
      this.#floor ??= this.#store.reach({ ...from, ...among(this.#query), rows: this.#rows })
    const downTo = await this.#floor
    const page = await this.#store.list({ ...this.#query, ...from, ...(downTo && { downTo }), limit })
    this.before = page.at(-1)?.id ?? before
    return page
  }

  /** Moves to the next window; false: there is none. */
  async next(): Promise<boolean> {
    const floor = await this.#floor
    if (floor === null || floor === undefined) return false
    // The caller may have skipped further down.
    this.before = this.before !== undefined && this.before < floor ? this.before : floor
    this.#floor = undefined
    this.passed += this.#rows
    const tookMs = Math.max(performance.now() - this.#beganAt, 0.1)
    const wanted = (this.#rows * windowMs) / tookMs
    this.#rows = Math.floor(Math.min(maxRows, this.#rows * 4, Math.max(firstRows, wanted)))
    // Let other work of this thread run.
    await new Promise((resolve) => setImmediate(resolve))
    this.#beganAt = performance.now()
    return true
  }
}

function among({ state }: Omit<ListQuery, 'limit'>): Pick<ReachQuery, 'among'> {
  if (state === undefined) return {}
  return { among: state === 'completed' ? 'ended' : 'live' }
}
