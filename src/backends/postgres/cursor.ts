import type { ClaimedRecord, NewJob } from '../../jobs/index.ts'

/**
 * Where to begin looking for ready jobs. Normally at the start, so that the order is exact. But while somebody holds an
 * old snapshot open, index entries of jobs taken long ago cannot be removed, and every claim from the start would walk
 * them all again. When a claim was slow, the next ones go on where it ended, for a second at most; then one looks from
 * the start again. If going on turns out no quicker, it was not dead entries, and the cursor stays off for a while.
 *
 * What other processes add before the position is found by the next full look, or as soon as a claim comes short.
 */
export interface Position {
  /** The priority, negated: what the index begins with. */
  readonly rank: string
  readonly runAt: string
  readonly id: string
}

/** Before every job there can be. */
export const start: Position = { rank: '-9223372036854775808', runAt: '-9223372036854775808', id: '' }

/** A claim of that many jobs that took longer walked over something it did not take. */
const slowMs = (taken: number) => 3 + taken * 0.03
const forMs = 1_000
const offMs = 5_000
const missesAllowed = 3

export class Cursor {
  #position: Position | undefined
  #until = 0
  #offUntil = 0
  /** What the full look cost that set the cursor, for one job. */
  #fullCost = 0
  /** Claims from the cursor in a row that were no quicker; one alone may have been slow for another reason. */
  #misses = 0

  /** Where to begin now. */
  from(now: number): Position {
    if (this.#position !== undefined && now >= this.#until) this.#position = undefined
    return this.#position ?? start
  }

  /** A claim that began at `from` took these, in that time. */
  took(from: Position, jobs: readonly ClaimedRecord[], tookMs: number, now: number): void {
    const last = jobs.at(-1)
    if (last === undefined) {
      this.reset()
      return
    }
    const cost = tookMs / jobs.length
    if (from === start) {
      this.#position = undefined
      if (tookMs < slowMs(jobs.length) || now < this.#offUntil) return
      this.#fullCost = cost
      this.#until = now + forMs
      this.#misses = 0
    } else {
      this.#misses = cost > this.#fullCost / 2 ? this.#misses + 1 : 0
      if (this.#misses === missesAllowed) {
        this.#offUntil = now + offMs
        this.reset()
      }
      // Something went back in line meanwhile, before the place where this one ended.
      if (this.#position !== from) return
    }
    this.#position = { rank: String(-last.priority), runAt: String(last.runAt), id: last.id }
  }

  /** A job of this process goes in line: one that belongs before the position must not wait for the next full look. */
  added({ priority, due, id }: Pick<NewJob, 'priority' | 'due' | 'id'>): void {
    const at = this.#position
    if (at === undefined) return
    const rank = -priority - Number(at.rank)
    if (rank > 0) return
    if (rank === 0 && 'delayMs' in due) return
    if (rank === 0 && 'runAt' in due && due.runAt - Number(at.runAt) > 0) return
    if (rank === 0 && 'runAt' in due && due.runAt === Number(at.runAt) && id > at.id) return
    this.reset()
  }

  /** A job of this process is back at its place in line: the next claim begins there, and not at the start. */
  wentBack({ priority, runAt }: Pick<ClaimedRecord, 'priority' | 'runAt'>): void {
    const at = this.#position
    if (at === undefined) return
    const rank = -priority
    if (rank > Number(at.rank) || (rank === Number(at.rank) && runAt > Number(at.runAt))) return
    this.#position = { rank: String(rank), runAt: String(runAt), id: '' }
  }

  reset(): void {
    this.#position = undefined
  }
}
