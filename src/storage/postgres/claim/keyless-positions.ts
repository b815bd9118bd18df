import { type Position, start } from '../jobs/cursor.ts'

/**
 * Where to look for jobs without a key in a queue that is limited by key. No index tells them from the others, so a claim
 * walks the line; where thousands with a key stand in front, the next claims go on behind those, for a second or more.
 * What comes to stand before the place meanwhile is found by the next look from the start.
 */
export class KeylessPositions {
  readonly #places = new Map<string, Kept>()

  from(queue: string, kinds: readonly string[] | null): Position {
    const kept = this.#places.get(keyOf(queue, kinds))
    return kept !== undefined && performance.now() < kept.until ? kept.place : start
  }

  /** A look that took that long found none up to `place`; `isEnd`: it went as far as there is need to. */
  passed(
    queue: string,
    kinds: readonly string[] | null,
    { place, tookMs, isEnd }: { readonly place: Position; readonly tookMs: number; readonly isEnd: boolean },
  ): void {
    const now = performance.now()
    const key = keyOf(queue, kinds)
    const kept = this.#places.get(key)
    if (this.#places.size > maxPlaces) this.#places.clear()
    // However often it goes on, the next look from the start comes when it was due.
    const isSame = kept?.isEnd === true && now < kept.until
    const until = isSame ? kept.until : now + (isEnd ? Math.max(leastMs, tookMs * 20) : mostMs)
    this.#places.set(key, { place, until, isEnd: isSame || isEnd })
  }
}

interface Kept {
  readonly place: Position
  readonly until: number
  readonly isEnd: boolean
}

const maxPlaces = 1_000
const leastMs = 1_000
const mostMs = 60_000

function keyOf(queue: string, kinds: readonly string[] | null): string {
  return JSON.stringify([queue, kinds])
}
