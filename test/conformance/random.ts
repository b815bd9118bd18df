import { createNumbers } from '../support/random.ts'

/** Draws from a seed: the same seed, the same draws, on every machine. */
export class Random {
  readonly #next: () => number

  constructor(seed: number) {
    this.#next = createNumbers(seed)
  }

  /** From 0 up to, and without, `end`. */
  below(end: number): number {
    return Math.floor(this.#next() * end)
  }

  chance(share: number): boolean {
    return this.below(1_000) < share * 1_000
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }

  /** One of the options, each as often as its weight says. */
  weighted<Item extends readonly [weight: number, ...rest: unknown[]]>(items: readonly Item[]): Item {
    let at = this.below(items.reduce((sum, [weight]) => sum + weight, 0))
    return items.find(([weight]) => {
      at -= weight
      return at < 0
    })!
  }

  /** Some of the items, each at most once, in their order. */
  some<Item>(items: readonly Item[], share = 0.5): Item[] {
    return items.filter(() => this.chance(share))
  }

  /** `count` of the items, maybe some of them twice. */
  draw<Item>(items: readonly Item[], count: number): Item[] {
    return items.length === 0 ? [] : Array.from({ length: count }, () => this.pick(items))
  }

  /** An id made in the hour before `now`, in random order, so that sorting by id shows. */
  id(now: number): string {
    const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
    let time = now - this.below(3_600_000)
    let id = ''
    for (let i = 0; i < 10; i++) {
      id = alphabet[time % 32] + id
      time = Math.floor(time / 32)
    }
    return id + Array.from({ length: 16 }, () => alphabet[this.below(32)]).join('')
  }
}
