import type { ClaimedRecord, NewJob } from '../../../jobs/index.ts'

/**
 * Where to begin looking for ready jobs. Normally at the start, so that the order is exact. But index entries of jobs that
 * were taken stay until a vacuum, and while somebody holds an old snapshot open not even that can remove them: every claim
 * from the start walks them all again. So there are two times when claims go on where the last one ended:
 *
 *     briefly   behind a large claim that was filled: a backlog is being worked off. For a tenth of a second, which is how
 *               far ahead a worker holds jobs anyway
 *     longer    behind a claim that was slow, for a second. If going on turns out no quicker, it was not dead entries, and
 *               the cursor stays off for a while
 *
 * What other processes add before the position is found by the next full look, or as soon as a claim comes short.
 */
export interface Position {
  /** The priority, negated: what the index begins with. */
  readonly rank: string
  readonly runAt: string
  readonly id: string
  /** It is soon given up, so that what falls due before it need not be asked for first. */
  readonly isBrief?: boolean
}

/** Before every job there can be. */
export const start: Position = { rank: '-9223372036854775808', runAt: '-9223372036854775808', id: '' }

/** A claim of that many jobs that took longer walked over something it did not take. */
const slowMs = (taken: number) => 3 + taken * 0.03
const forMs = 1_000
/** A claim of that many, all that it asked for, is one of a backlog. */
const manyJobs = 100
const brieflyMs = 100
const offMs = 5_000
const missesAllowed = 3

export class Cursor {
  #position: Position | undefined
  #isBrief = false
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

  /** A claim that began at `from` took these, in that time; `isFull`: as many as it asked for. */
  took(
    from: Position,
    jobs: readonly ClaimedRecord[],
    { tookMs, isFull, now }: { readonly tookMs: number; readonly isFull: boolean; readonly now: number },
  ): void {
    const last = jobs.at(-1)
    if (last === undefined) {
      this.reset()
      return
    }
    const cost = tookMs / jobs.length
    if (from === start) {
      this.#position = undefined
      const isSlow = tookMs >= slowMs(jobs.length) && now >= this.#offUntil
      if (!isSlow && (!isFull || jobs.length < manyJobs)) return
      this.#isBrief = !isSlow
      this.#fullCost = cost
      this.#until = now + (isSlow ? forMs : brieflyMs)
      this.#misses = 0
    } else {
      this.#misses = cost > this.#fullCost / 2 ? this.#misses + 1 : 0
      if (this.#misses >= missesAllowed && !this.#isBrief) {
        this.#offUntil = now + offMs
        this.reset()
      }
      // Something went back in line meanwhile, before the place where this one ended.
      if (this.#position !== from) return
    }
    this.#go(-last.priority, last.runAt, last.id)
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
    this.#go(rank, runAt, '')
  }

  #go(rank: number, runAt: number, id: string): void {
    const position = { rank: String(rank), runAt: String(runAt), id }
    this.#position = this.#isBrief ? { ...position, isBrief: true } : position
  }

  reset(): void {
    this.#position = undefined
  }
}
