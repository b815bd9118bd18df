/** A yes or no by seat, a byte each. */
const smallest = 16

export class SeatFlags {
  #flags = new Uint8Array(smallest)

  has(seat: number): boolean {
    return this.#flags[seat] === 1
  }

  raise(seat: number): void {
    if (seat >= this.#flags.length) this.#grow(seat * 2)
    this.#flags[seat] = 1
  }

  lower(seat: number): void {
    this.#flags[seat] = 0
  }

  clear(): void {
    this.#flags = new Uint8Array(smallest)
  }

  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void {
    const flags = this.#flags
    this.clear()
    for (let oldSeat = 0; oldSeat < newSeats.length; oldSeat++) {
      if (flags[oldSeat] === 1) this.raise(newSeats[oldSeat] as number)
    }
  }

  #grow(length: number): void {
    const grown = new Uint8Array(length)
    grown.set(this.#flags)
    this.#flags = grown
  }
}
