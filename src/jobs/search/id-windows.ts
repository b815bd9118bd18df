import { isReserved } from '../api/add-options.ts'
import type { JobRecord, JobStore, ListQuery, ReachQuery } from '../job-store.ts'

/**
 * A list that no index leads to is read in windows: from one id down to another, with a bounded number of jobs between
 * them. So a look for a name that hardly any job has takes no longer at a time than one for a common name, and whoever
 * asked can be told how far it came.
 */

/** In these, and in Signalbox's own queues, a store finds jobs directly. */
const direct: ReadonlySet<unknown> = new Set(['waiting', 'running', 'dead', 'cancelled'])

export function needsWindows({ queue, kind, state }: Pick<ListQuery, 'queue' | 'kind' | 'state'>): boolean {
  if (direct.has(state) || (queue !== undefined && isReserved(queue))) return false
  return queue !== undefined || kind !== undefined || state !== undefined
}

/** So many are looked at first: nearly always enough. */
const firstRows = 2_000
const maxRows = 50_000
/** How long one window should take, for a store may be in this thread. */
const windowMs = 20

/** Windows one below the other, as large as can be read in a short turn. */
export class Windows {
  readonly #store: Pick<JobStore, 'list' | 'reach'>
  #rows = firstRows
  #floor: Promise<string | null> | undefined
  #beganAt = performance.now()
  /** About how many jobs were in those before. */
  passed = 0
  /** Where the present one begins. */
  before: string | undefined

  constructor(store: Pick<JobStore, 'list' | 'reach'>, before: string | undefined) {
    this.#store = store
    this.before = before
  }

  /** A page of the window, from `before` on; one that is short has come to its end. */
  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    const { before } = this
    const from = before === undefined ? {} : { before }
    this.#floor ??= this.#store.reach({ ...from, ...among(query), rows: this.#rows })
    const floor = await this.#floor
    const page = await this.#store.list({ ...query, ...from, ...(floor === null ? {} : { downTo: floor }) })
    const last = page.at(-1)
    if (last !== undefined) this.before = last.id
    return page
  }

  /** Goes on to the next one; false: there is none. */
  async next(): Promise<boolean> {
    const floor = await this.#floor
    if (floor === null || floor === undefined) return false
    // Whoever reads may have gone further by itself.
    this.before = this.before !== undefined && this.before < floor ? this.before : floor
    this.#floor = undefined
    this.passed += this.#rows
    const tookMs = Math.max(performance.now() - this.#beganAt, 0.1)
    const wanted = (this.#rows * windowMs) / tookMs
    this.#rows = Math.floor(Math.min(maxRows, this.#rows * 4, Math.max(firstRows, wanted)))
    // Whoever waits meanwhile has a turn.
    await new Promise((resolve) => setImmediate(resolve))
    this.#beganAt = performance.now()
    return true
  }
}

function among({ state }: ListQuery): Pick<ReachQuery, 'among'> {
  if (state === undefined) return {}
  return { among: state === 'completed' ? 'ended' : 'live' }
}
