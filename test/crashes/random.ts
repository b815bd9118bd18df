/**
 * Numbers that follow from a seed. A crash campaign's plan (which worker, when, how) is replayed by its seed; what the
 * operating system makes of it is not, so a seed that showed a failure may need several runs to show it again.
 */
export interface Random {
  /** At least 0 and below 1. */
  (): number
  /** A whole number from `min` to `max`, both included. */
  whole(min: number, max: number): number
  pick<Item>(items: readonly Item[]): Item
}

/** mulberry32: 32 bits of state are plenty for a few thousand decisions. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const whole = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1))
  return Object.assign(next, {
    whole,
    pick: <Item>(items: readonly Item[]): Item => items[whole(0, items.length - 1)]!,
  })
}
