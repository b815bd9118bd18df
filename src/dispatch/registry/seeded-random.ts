/** Dice that fall the same way for the same seed: the registry's only randomness. */
export class Dice {
  #state: number

  constructor(seed: number) {
    // xorshift stays at zero for ever when it starts there.
    this.#state = seed | 0 || 0x9e3779b9
  }

  /** A whole number from 0 to `sides - 1`. */
  roll(sides: number): number {
    let state = this.#state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state
    return (state >>> 0) % sides
  }
}
