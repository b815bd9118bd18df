import type { NewJob } from '../../jobs/index.ts'

/**
 * Remembers where claims start to search the queue. While a transaction holds an old snapshot, the database cannot
 * remove the index entries of claimed jobs, and each search from the front walks over all of them. So when such
 * searches are slow, this class remembers the position where a search found jobs. The next claims start there, for
 * twenty times as long as the search took. One search per second still starts at the front, unless that alone would
 * take half of the time.
 *
 * When this process adds a job before a remembered position, the position moves back to the job, also during a search.
 * Jobs of other processes, due jobs and expired jobs wait for the next search from the front. So do jobs of a caller's
 * transaction, because the store does not see its commit. Usually no search is slow, and every search starts at the
 * front. A single slow search may be caused by a busy machine; three in a row count as a sign of dead entries.
 */
const slowMs = 3
const slowInARow = 3
const keepFactor = 20
const keepMs = 1_000
/** An add reads the clock and then commits, so its job may be a little older than a search that did not see it. */
const slackMs = 1_000

/**
 * A position in the order of the queue. It includes the id, because many jobs added together can be due at the same
 * millisecond.
 */
export interface QueuePosition {
  readonly rank: number
  readonly at: number
  readonly id: string
}

/** The result of a search from the front, by the database's clock. */
export interface Found {
  readonly tookMs: number
  readonly now: number
  readonly position: QueuePosition | undefined
}

/** One search, from start to end. The class compares its result with jobs that become ready meanwhile. */
export interface Search extends Disposable {
  /** Where to start. Undefined: at the front. */
  readonly from: QueuePosition | undefined
  /** Call after a complete search from the front. */
  record(found: Found): void
  /** Call after a search from a position: moves the position forward, but does not extend its time. */
  advance(position: QueuePosition): void
}

/** A key whose last search from the front was slow. */
interface Slow {
  /** The number of slow searches in a row. */
  readonly count: number
  /** Undefined: too few searches so far, or the queue changed at an unknown position. */
  position: QueuePosition | undefined
  /** The database's clock at the last search from the front. */
  since: number
  until: number
}

/** Jobs that became ready during a search: the first known position, and the best rank of jobs due at that moment. */
interface Pending {
  earliest: QueuePosition | undefined
  rank: number | undefined
  isForgotten: boolean
}

export class Positions {
  readonly #slow = new Map<string, Slow>()
  readonly #pending = new Set<Pending>()

  /** `key` names the queues and the filter of the search. */
  begin(key: string): Search {
    const slow = this.#slow.get(key)
    const from = slow !== undefined && slow.until > performance.now() ? slow.position : undefined
    const pending: Pending = { earliest: undefined, rank: undefined, isForgotten: false }
    this.#pending.add(pending)
    return {
      from,
      record: (found) => this.#record(key, found, pending),
      advance: (position) => {
        // A newer search moved the position meanwhile.
        if (slow === undefined || slow.position !== from) return
        slow.position = position
        holdBack(slow, pending)
      },
      [Symbol.dispose]: () => void this.#pending.delete(pending),
    }
  }

  #record(key: string, { tookMs, now, position }: Found, pending: Pending): void {
    if (tookMs < slowMs) {
      this.#slow.delete(key)
      return
    }
    const count = (this.#slow.get(key)?.count ?? 0) + 1
    if (this.#slow.size >= 10_000) this.#slow.clear()
    const until = performance.now() + Math.max(tookMs, Math.min(keepMs - tookMs, keepFactor * tookMs))
    const isKept = count >= slowInARow && !pending.isForgotten
    const slow: Slow = { count, position: isKept ? position : undefined, since: now, until }
    holdBack(slow, pending)
    this.#slow.set(key, slow)
  }

  /** Jobs may have been added at any position. */
  forget(): void {
    for (const slow of this.#slow.values()) slow.position = undefined
    for (const pending of this.#pending) pending.isForgotten = true
  }

  /** This process added jobs. */
  added(jobs: readonly NewJob[]): void {
    const ranks = new Set<number>()
    for (const { id, priority, due, dependsOn } of jobs) {
      // The job is not ready yet.
      if (dependsOn) continue
      if ('runAt' in due) this.jobReadyAt({ rank: -priority, at: due.runAt, id })
      else if (due.delayMs === 0) ranks.add(-priority)
    }
    for (const rank of ranks) this.jobReadyNow(rank)
  }

  /** This process made a job ready. */
  jobReadyAt(position: QueuePosition): void {
    for (const slow of this.#slow.values()) moveBack(slow, position)
    for (const pending of this.#pending) {
      if (pending.earliest === undefined || isBefore(position, pending.earliest)) pending.earliest = position
    }
  }

  /** This process added a job that is due at the moment of its write. */
  jobReadyNow(rank: number): void {
    for (const slow of this.#slow.values()) moveBack(slow, aboutNow(slow, rank))
    for (const pending of this.#pending) pending.rank = Math.min(rank, pending.rank ?? rank)
  }
}

/** A job that became ready during the search may come before the position that it found. */
function holdBack(slow: Slow, { earliest, rank }: Pending): void {
  if (earliest !== undefined) moveBack(slow, earliest)
  if (rank !== undefined) moveBack(slow, aboutNow(slow, rank))
}

function moveBack(slow: Slow, position: QueuePosition): void {
  if (slow.position !== undefined && isBefore(position, slow.position)) slow.position = position
}

function aboutNow({ since }: Slow, rank: number): QueuePosition {
  return { rank, at: since - slackMs, id: '' }
}

function isBefore(a: QueuePosition, b: QueuePosition): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  return a.at === b.at ? a.id < b.id : a.at < b.at
}
