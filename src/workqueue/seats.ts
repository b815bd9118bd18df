/**
 * A seat for every key that a queue knows of: a small number, so that all that is known of the key stands in plain
 * arrays. Looking a key up is the dearest thing a queue does; with seats it happens once a call, whether the key is
 * queued, in hand, waiting, or several of these.
 */
export class Seats {
  readonly #seatOf = new Map<unknown, number>()
  /** By seat; kept only where a key cannot be had from the item. */
  #keys: unknown[] = []
  readonly #keepsKeys: boolean
  #free: number[] = []
  /** How many seats there are, taken or free: the length of what stands by seat. */
  #length = 0

  constructor(keepsKeys: boolean) {
    this.#keepsKeys = keepsKeys
  }

  /** How many keys have a seat. */
  get size(): number {
    return this.#seatOf.size
  }

  find(key: unknown): number | undefined {
    return this.#seatOf.get(key)
  }

  /** The key of a seat, for those that keep keys. */
  keyAt(seat: number): unknown {
    return this.#keys[seat]
  }

  /** The seat of a key, a new one if it has none. */
  take(key: unknown): number {
    const known = this.#seatOf.get(key)
    if (known !== undefined) return known
    const seat = this.#free.length > 0 ? (this.#free.pop() as number) : this.#length++
    this.#seatOf.set(key, seat)
    if (this.#keepsKeys) this.#keys[seat] = key
    return seat
  }

  free(seat: number, key: unknown): void {
    this.#seatOf.delete(key)
    this.#free.push(seat)
    if (this.#keepsKeys) this.#keys[seat] = undefined
  }

  clear(): void {
    this.#seatOf.clear()
    this.#keys = []
    this.#free = []
    this.#length = 0
  }

  /** Whether so few seats are taken that it is worth while to close the gaps. */
  get sparse(): boolean {
    return this.#length >= 64 && this.#seatOf.size * 8 <= this.#length
  }

  /** Closes the gaps, so that memory follows a burst down again. Answers the new seat by old seat. */
  renumber(): Uint32Array {
    const newSeats = new Uint32Array(this.#length)
    let seat = 0
    for (const [key, oldSeat] of this.#seatOf) {
      newSeats[oldSeat] = seat
      this.#seatOf.set(key, seat++)
    }
    this.#keys = renumber(this.#keys, newSeats)
    this.#free = []
    this.#length = seat
    return newSeats
  }
}

/** Makes an array that stands by seat long enough for a seat; writing far beyond its end would make it slow. */
export function extend<V>(values: (V | undefined)[], seat: number): void {
  while (values.length <= seat) values.push(undefined)
}

/** What stands by seat, after the seats were numbered anew. */
export function renumber<V>(values: readonly (V | undefined)[], newSeats: Uint32Array): (V | undefined)[] {
  const moved: (V | undefined)[] = []
  values.forEach((value, oldSeat) => {
    if (value === undefined) return
    const seat = newSeats[oldSeat] as number
    extend(moved, seat)
    moved[seat] = value
  })
  return moved
}
