import type { FinalState } from '../../jobs/index.ts'
import type { Row } from './job-row.ts'

/**
 * The live jobs: lists of queued jobs in the order of claiming, the set of running jobs, and the unique keys of all
 * live jobs. Only `enqueue`, `hold`, `start` and `end` move a job from one to another.
 */
export class LiveJobs {
  /** By queue and kind, so that a claim skips paused queues and unknown kinds without a search. */
  readonly #lists = new Map<string, Map<string, JobList>>()
  readonly #running = new Set<Row>()
  /** The live job of each (queue, unique key). */
  readonly #keys = new Map<string, Map<string, Row>>()
  /** No lease ends before this time, so most searches for expired leases can be skipped. */
  #earliestLeaseEnd = Number.POSITIVE_INFINITY

  get running(): ReadonlySet<Row> {
    return this.#running
  }

  /** Makes a job scheduled or ready, from any state. */
  enqueue(row: Row): void {
    row.list?.remove(row)
    this.#clearLease(row)
    row.stored = 'queued'
    this.#keepKey(row)
    this.#listOf(row).add(row)
  }

  /** Makes a job wait for its dependencies or its lock. */
  hold(row: Row): void {
    row.list?.remove(row)
    this.#clearLease(row)
    row.stored = 'waiting'
    this.#keepKey(row)
  }

  /** Makes a job run under a lease. */
  start(row: Row, token: string, leaseEndsAt: number): void {
    row.list?.remove(row)
    row.stored = 'running'
    row.token = token
    row.leaseEndsAt = leaseEndsAt
    this.#running.add(row)
    this.#earliestLeaseEnd = Math.min(this.#earliestLeaseEnd, leaseEndsAt)
  }

  /** Ends a job. */
  end(row: Row, state: FinalState): void {
    row.list?.remove(row)
    this.#clearLease(row)
    row.stored = state
    this.#dropKey(row)
  }

  /** The running jobs whose lease expired, by the end of the lease. */
  expired(now: number): readonly Row[] {
    // A renewal never makes a lease end earlier.
    if (now < this.#earliestLeaseEnd) return []
    const expired: Row[] = []
    this.#earliestLeaseEnd = Number.POSITIVE_INFINITY
    for (const row of this.#running) {
      if (row.leaseEndsAt <= now) expired.push(row)
      this.#earliestLeaseEnd = Math.min(this.#earliestLeaseEnd, row.leaseEndsAt)
    }
    return expired.sort((a, b) => a.leaseEndsAt - b.leaseEndsAt)
  }

  /** The live job with this key. */
  withKey(queue: string, uniqueKey: string): Row | undefined {
    return this.#keys.get(queue)?.get(uniqueKey)
  }

  /** Whether a live job of this queue has a unique key. */
  hasKeyIn(queue: string): boolean {
    return this.#keys.has(queue)
  }

  #listOf({ queue, kind }: Row): JobList {
    const kinds = this.#lists.get(queue) ?? new Map<string, JobList>()
    this.#lists.set(queue, kinds)
    const list = kinds.get(kind) ?? new JobList()
    kinds.set(kind, list)
    return list
  }

  /** The lists of these kinds, or of all. Deletes empty lists, because there may be very many kinds over time. */
  listsOf(queue: string, kinds: readonly string[] | null): readonly JobList[] {
    const known = this.#lists.get(queue)
    if (!known) return []
    for (const [kind, list] of known) if (list.isEmpty) known.delete(kind)
    if (kinds === null) return [...known.values()]
    return [...new Set(kinds)].flatMap((kind) => known.get(kind) ?? [])
  }

  #keepKey(row: Row): void {
    if (row.uniqueKey === null) return
    const keys = this.#keys.get(row.queue) ?? new Map<string, Row>()
    this.#keys.set(row.queue, keys.set(row.uniqueKey, row))
  }

  /** Deletes the map of a queue with its last key, because there may be very many queues over time. */
  #dropKey({ queue, uniqueKey }: Row): void {
    const keys = uniqueKey === null ? undefined : this.#keys.get(queue)
    if (keys?.delete(uniqueKey!) && keys.size === 0) this.#keys.delete(queue)
  }

  #clearLease(row: Row): void {
    this.#running.delete(row)
    row.token = null
    row.cancelRequested = false
  }
}

/** The queued jobs of one queue and kind, due or not, in the order of claiming. */
export class JobList {
  readonly #rows: Row[] = []
  /** The index of the first job; earlier entries are removed. Closing the gap at each claim would take long. */
  #start = 0

  get isEmpty(): boolean {
    return this.#rows.length === this.#start
  }

  add(row: Row): void {
    const rows = this.#rows
    let [from, to] = [this.#start, rows.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if (goesBefore(rows[middle]!, row)) from = middle + 1
      else to = middle
    }
    rows.splice(from, 0, row)
    row.list = this
  }

  /** Removes a job, which must be in this list. */
  remove(row: Row): void {
    const at = this.#rows.indexOf(row, this.#start)
    if (at > this.#start) this.#rows.splice(at, 1)
    else if (++this.#start > this.#rows.length / 2) {
      this.#rows.splice(0, this.#start)
      this.#start = 0
    }
    row.list = null
  }

  /** The first due job. */
  first(now: number): Row | undefined {
    for (let at = this.#start; at < this.#rows.length; at++) {
      const row = this.#rows[at]!
      if (row.runAt <= now) return row
    }
    return undefined
  }
}

/** The order of claiming: higher priority first, then due time, then id. */
export function goesBefore(a: Row, b: Row): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  if (a.runAt !== b.runAt) return a.runAt < b.runAt
  return a.id < b.id
}
