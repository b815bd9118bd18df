/**
 * What was there a moment ago and has become empty stays for some minutes, marked: a queue that runs dry every second does
 * not flicker, and its row is there when the next job comes.
 */
export const emptiedMs = 300_000
/** The most names that are remembered: names that are used once would fill the page. */
const mostEmptied = 50

/** Since when it has been empty; left out while it is not. */
export interface Emptied {
  readonly emptiedAt?: number
}

/** The newest answer, with what was in the one before and is not in it now, emptied. */
export function keepEmptied<Item>(
  before: readonly (Item & Emptied)[],
  now: readonly Item[],
  at: number,
  keyOf: (item: Item) => string,
  empty: (item: Item) => Item,
): readonly (Item & Emptied)[] {
  const there = new Set(now.map(keyOf))
  const gone = before.flatMap((item) => {
    const emptiedAt = item.emptiedAt ?? at
    return there.has(keyOf(item)) || at - emptiedAt > emptiedMs ? [] : [{ ...empty(item), emptiedAt }]
  })
  const newest = gone.toSorted((a, b) => b.emptiedAt - a.emptiedAt).slice(0, mostEmptied)
  return [...(now as readonly (Item & Emptied)[]), ...newest]
}
