import { createNumbers } from '../support/random.ts'

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

export function createRandom(seed: number): Random {
  const next = createNumbers(seed)
  const whole = (min: number, max: number): number => min + Math.floor(next() * (max - min + 1))
  return Object.assign(next, {
    whole,
    pick: <Item>(items: readonly Item[]): Item => items[whole(0, items.length - 1)]!,
  })
}
