/** The instants at which a schedule runs: its slots. */
export interface Slots {
  /** The first one after that instant; null: never again. */
  next(after: number): number | null
  /** Those after `after` up to and including `until`, oldest first; of more than `max`, the newest. */
  newest(after: number, until: number, max: number): readonly number[]
}

/** Every `everyMs` from `startAt` on. */
export function createRate(everyMs: number, startAt: number): Slots {
  const countAt = (instant: number) => Math.max(-1, Math.floor((instant - startAt) / everyMs))
  return {
    next: (after) => startAt + (countAt(after) + 1) * everyMs,
    newest(after, until, max) {
      const last = countAt(until)
      const first = Math.max(countAt(after) + 1, last - max + 1)
      return Array.from(
        { length: Math.max(0, last - first + 1) },
        (_, at) => startAt + (first + at) * everyMs,
      )
    },
  }
}

/** The same slots as long as they are not after `endAt`. */
export function endSlots(slots: Slots, endAt: number | null): Slots {
  if (endAt === null) return slots
  return {
    next(after) {
      const slot = slots.next(after)
      return slot === null || slot > endAt ? null : slot
    },
    newest: (after, until, max) => slots.newest(after, Math.min(until, endAt), max),
  }
}

const firstLookMs = 120_000

/**
 * `newest` by `next` alone. A server may come back after a year to a line that runs every second, so it looks back from
 * the end: two minutes at first, then further and further, until there are enough. A line may also be silent for months
 * behind a stretch in which it runs every second: where there are far more than enough, the distance is halved until
 * there are not. So it never counts many, however many there were.
 */
export function newestByNext(
  next: Slots['next'],
  after: number,
  until: number,
  max: number,
): readonly number[] {
  const most = 2 * max + 8
  /** Those from there on; more than `most` of them are not all listed. */
  function listFrom(from: number): readonly number[] {
    const found: number[] = []
    for (let slot = next(from); slot !== null && slot <= until; slot = next(slot)) {
      found.push(slot)
      if (found.length > most) break
    }
    return found
  }

  let few = until
  let many = until
  for (let spanMs = firstLookMs; many === until; spanMs *= 4) {
    const from = Math.max(after, until - spanMs)
    const found = listFrom(from)
    if (found.length > most) many = from
    else if (found.length >= max || from <= after) return found.slice(-max)
    else few = from
  }
  // No two slots share a millisecond, so between too many and too few there is a place with neither.
  for (;;) {
    const middle = Math.floor((many + few) / 2)
    const found = listFrom(middle)
    if (found.length > most) many = middle
    else if (found.length < max) few = middle
    else return found.slice(-max)
  }
}
