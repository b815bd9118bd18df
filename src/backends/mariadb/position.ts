/**
 * Where claims of a queue begin to look. While somebody holds an old snapshot, InnoDB cannot purge the index entries
 * of jobs that have left the line, and each claim would walk over all of them. So after a slow claim the place where
 * it found its jobs is remembered and the next claims begin there, for a second at most; then one looks from the
 * front again. What comes to stand before the place (a higher priority, a job handed back) forgets it when this
 * process put it there, and waits that second at most when another did. In normal times no claim is slow and every
 * one looks from the front.
 */
const slowMs = 30
const keepMs = 1_000

export interface Place {
  readonly rank: number
  readonly at: number
}

interface Remembered {
  readonly place: Place
  readonly until: number
}

export class Positions {
  readonly #remembered = new Map<string, Remembered>()

  /** Where to begin, or undefined: at the front. `key` names the queue and what is looked for in it. */
  find(key: string): Place | undefined {
    const found = this.#remembered.get(key)
    if (found === undefined || found.until > performance.now()) return found?.place
    this.#remembered.delete(key)
    return undefined
  }

  /** Told of every look from the front that was done in full. */
  note(key: string, tookMs: number, place: Place | undefined): void {
    if (tookMs < slowMs || place === undefined) return
    if (this.#remembered.size > 10_000) this.#remembered.clear()
    this.#remembered.set(key, { place, until: performance.now() + keepMs })
  }

  /** Moves on along the line, not in time. */
  advance(key: string, place: Place): void {
    const found = this.#remembered.get(key)
    if (found !== undefined) this.#remembered.set(key, { ...found, place })
  }

  /** Something may stand before the places remembered. */
  forget(): void {
    this.#remembered.clear()
  }

  /** Something of this rank was put in line, due now: only places of a later rank are passed by it. */
  added(rank: number): void {
    for (const [key, { place }] of this.#remembered) {
      if (rank < place.rank) this.#remembered.delete(key)
    }
  }

  get empty(): boolean {
    return this.#remembered.size === 0
  }
}
