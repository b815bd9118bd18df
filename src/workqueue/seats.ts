/**
 * A seat for every key that a queue knows of: a small number, so that all that is known of the key stands in plain
 * arrays. Looking a key up is the dearest thing a queue does; with seats it happens once a call, whether the key is
 * queued, in hand, waiting, or several of these.
 *
 * A key that became idle may rest: it keeps its seat for a while, since the same few names come back over and over.
 * That saves the map an entry and a deletion each time, and rebuilding itself; see KeyMap. Objects never rest: a key
 * must not keep them alive.
 */
import { KeyMap } from './keymap.ts'
import { Ring } from './ring.ts'

/** So many may rest, and one more for every 16 keys that have a seat. */
const fewKeys = 1_024
/** One leaving key in so many is let rest: a busy name soon is, and most of those that come once are not. */
const restShare = 16

export class Seats {
  readonly #seatOf = new KeyMap<number>()
  /** By seat; kept only where a key cannot be had from the item. */
  #keys: unknown[] = []
  readonly #keepsKeys: boolean
  #freeSeats: number[] = []
  /** How many seats there are, taken or free: the length of what stands by seat. */
  #length = 0
  /** The seats that rest, or did and were taken again since, and their keys; the oldest first, each seat once. */
  #restingSeats = new Ring<number>()
  #restingKeys = new Ring<unknown>()
  /** By seat: 1 for those in `#restingSeats`. */
  #isListed = new Uint8Array(16)
  #leaveCount = 0

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
    const seat = this.#freeSeats.length > 0 ? (this.#freeSeats.pop() as number) : this.#length++
    this.#seatOf.enter(key, seat)
    if (this.#keepsKeys) this.#keys[seat] = key
    return seat
  }

  /** Whether a seat rests, or did and was taken again since. */
  isListed(seat: number): boolean {
    return this.#isListed[seat] === 1
  }

  /** Gives up the seat of an idle key that is not listed, or lets it rest. `isIdle` tells who may give way to it. */
  leave(seat: number, key: unknown, isIdle: (seat: number) => boolean): void {
    if (typeof key === 'object' || typeof key === 'function') {
      this.#seatOf.delete(key)
      this.#free(seat)
    } else if (++this.#leaveCount % restShare === 0) {
      this.#rest(seat, key, isIdle)
    } else {
      this.#seatOf.deleteForGood(key)
      this.#free(seat)
    }
  }

  #rest(seat: number, key: unknown, isIdle: (seat: number) => boolean): void {
    if (seat >= this.#isListed.length) this.#isListed = resized(this.#isListed, this.#length * 2)
    this.#isListed[seat] = 1
    this.#restingSeats.push(seat)
    this.#restingKeys.push(key)
    while (this.#restingSeats.size > fewKeys + (this.#seatOf.size >> 4)) {
      const [oldestSeat, oldestKey] = [this.#restingSeats.shift(), this.#restingKeys.shift()]
      this.#isListed[oldestSeat] = 0
      if (!isIdle(oldestSeat)) continue
      this.#seatOf.deleteForGood(oldestKey)
      this.#free(oldestSeat)
    }
  }

  #free(seat: number): void {
    this.#freeSeats.push(seat)
    if (this.#keepsKeys) this.#keys[seat] = undefined
  }

  clear(): void {
    this.#seatOf.clear()
    this.#keys = []
    this.#freeSeats = []
    this.#length = 0
    this.#restingSeats = new Ring()
    this.#restingKeys = new Ring()
    this.#isListed = new Uint8Array(16)
  }

  /** Whether so few seats are taken that it is worth while to close the gaps. */
  get sparse(): boolean {
    return this.#length >= 64 && this.#seatOf.size * 8 <= this.#length
  }

  /** Closes the gaps, so that memory follows a burst down again. Answers the new seat by old seat. */
  renumber(): Uint32Array {
    const newSeats = new Uint32Array(this.#length)
    let seat = 0
    for (const [key, oldSeat] of this.#seatOf.entries()) {
      newSeats[oldSeat] = seat
      this.#seatOf.set(key, seat++)
    }
    this.#keys = renumber(this.#keys, newSeats)
    this.#freeSeats = []
    this.#length = seat
    this.#isListed = new Uint8Array(Math.max(16, seat))
    for (let left = this.#restingSeats.size; left > 0; left--) {
      const resting = newSeats[this.#restingSeats.shift()] as number
      this.#restingSeats.push(resting)
      this.#isListed[resting] = 1
    }
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

function resized(from: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const to = new Uint8Array(length)
  to.set(from)
  return to
}
