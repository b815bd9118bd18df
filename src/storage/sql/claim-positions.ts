import type { NewJob } from '../../jobs/index.ts'

/**
 * Where claims begin to look. While a transaction holds an old snapshot, the database cannot remove the index entries of
 * jobs that were claimed, and each look from the front walks over all of them. So when such looks are slow, this class
 * remembers the place where it found jobs. The next claims begin there, for twenty times as long as the look took. One
 * look per second still begins at the front, unless it alone would take half of the time.
 *
 * A job that this process adds before a remembered place moves the place back to it, also during a look. Jobs of other
 * processes, due jobs and expired jobs wait for the next look from the front. So do jobs of a caller's transaction,
 * because the store does not see its commit. In normal times no look is slow and every one is from the front. One slow
 * look may be the machine's doing; three in a row are taken for dead entries.
 */
const slowMs = 3
const slowInARow = 3
const keepFactor = 20
const keepMs = 1_000
/** An add reads the clock, then commits: its job may stand a little before a look that did not see it yet. */
const slackMs = 1_000

/** A place in the order of the queue. The id belongs to it: jobs added together are due at the same millisecond, however many. */
export interface Place {
  readonly rank: number
  readonly at: number
  readonly id: string
}

/** What a look from the front came to, by the database's clock. */
export interface Found {
  readonly tookMs: number
  readonly now: number
  readonly place: Place | undefined
}

/** One look, from its beginning to its end: jobs that become ready meanwhile are compared with its result. */
export interface Look extends Disposable {
  /** Where to begin, or undefined: at the front. */
  readonly from: Place | undefined
  /** After a look from the front that was done in full. */
  note(found: Found): void
  /** After a look from a place: moves the place forward, but does not extend its time. */
  advance(place: Place): void
}

/** A key whose last look from the front was slow. */
interface Slow {
  /** How many in a row were. */
  readonly count: number
  /** Undefined: too few looks so far, or an unknown change of the queue. */
  place: Place | undefined
  /** The database's clock at the last look from the front. */
  since: number
  until: number
}

/** The jobs that became ready during a look: the first known place, and the first due at that moment. */
interface Pending {
  earliest: Place | undefined
  rank: number | undefined
  isForgotten: boolean
}

export class Positions {
  readonly #slow = new Map<string, Slow>()
  readonly #pending = new Set<Pending>()

  /** `key` names the queues and what is looked for in them. */
  begin(key: string): Look {
    const slow = this.#slow.get(key)
    const from = slow !== undefined && slow.until > performance.now() ? slow.place : undefined
    const pending: Pending = { earliest: undefined, rank: undefined, isForgotten: false }
    this.#pending.add(pending)
    return {
      from,
      note: (found) => this.#note(key, found, pending),
      advance: (place) => {
        // The place was moved meanwhile, by a newer look.
        if (slow === undefined || slow.place !== from) return
        slow.place = place
        holdBack(slow, pending)
      },
      [Symbol.dispose]: () => void this.#pending.delete(pending),
    }
  }

  #note(key: string, { tookMs, now, place }: Found, pending: Pending): void {
    if (tookMs < slowMs) {
      this.#slow.delete(key)
      return
    }
    const count = (this.#slow.get(key)?.count ?? 0) + 1
    if (this.#slow.size >= 10_000) this.#slow.clear()
    const until = performance.now() + Math.max(tookMs, Math.min(keepMs - tookMs, keepFactor * tookMs))
    const isKept = count >= slowInARow && !pending.isForgotten
    const slow: Slow = { count, place: isKept ? place : undefined, since: now, until }
    holdBack(slow, pending)
    this.#slow.set(key, slow)
  }

  /** Jobs may have come to stand anywhere. */
  forget(): void {
    for (const slow of this.#slow.values()) slow.place = undefined
    for (const pending of this.#pending) pending.isForgotten = true
  }

  /** This process added jobs. */
  added(jobs: readonly NewJob[]): void {
    const ranks = new Set<number>()
    for (const { id, priority, due, dependsOn } of jobs) {
      // The job is not ready yet.
      if (dependsOn) continue
      if ('runAt' in due) this.passed({ rank: -priority, at: due.runAt, id })
      else if (due.delayMs === 0) ranks.add(-priority)
    }
    for (const rank of ranks) this.passedNow(rank)
  }

  /** This process made a job ready. */
  passed(place: Place): void {
    for (const slow of this.#slow.values()) moveBack(slow, place)
    for (const pending of this.#pending) {
      if (pending.earliest === undefined || isBefore(place, pending.earliest)) pending.earliest = place
    }
  }

  /** This process added a job that is due from the moment it was written. */
  passedNow(rank: number): void {
    for (const slow of this.#slow.values()) moveBack(slow, aboutNow(slow, rank))
    for (const pending of this.#pending) pending.rank = Math.min(rank, pending.rank ?? rank)
  }
}

/** A job that became ready during the look may come before the place it found. */
function holdBack(slow: Slow, { earliest, rank }: Pending): void {
  if (earliest !== undefined) moveBack(slow, earliest)
  if (rank !== undefined) moveBack(slow, aboutNow(slow, rank))
}

function moveBack(slow: Slow, place: Place): void {
  if (slow.place !== undefined && isBefore(place, slow.place)) slow.place = place
}

function aboutNow({ since }: Slow, rank: number): Place {
  return { rank, at: since - slackMs, id: '' }
}

function isBefore(a: Place, b: Place): boolean {
  if (a.rank !== b.rank) return a.rank < b.rank
  return a.at === b.at ? a.id < b.id : a.at < b.at
}
