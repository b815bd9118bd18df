/**
 * A seat for every key that a queue knows of: a small number, so that all that is known of the key stands in plain
 * arrays. Looking a key up is the dearest thing a queue does; with seats it happens once a call, whether the key is
 * queued, in hand, waiting, or several of these.
 *
 *   (unknown) -- take --> taken -- leave --> resting -- swept out with all others that rest --> (unknown)
 *                           ^                   |
 *                           +------ take -------+
 *
 * A key that became idle rests: it keeps its seat, since the same names come back over and over, and one that does not
 * is swept out later in one walk over the map, which costs less than deleting each by itself: a deletion is a look-up.
 * Objects never rest: a key must not keep them alive.
 */
import { renumber } from './by-index.ts'
import { SeatFlags } from './index-flags.ts'
import { SeatMap } from './index-map.ts'

/** So many may rest, and four more for every seat that is taken. */
const fewKeys = 1_024

export class Seats {
  readonly #seatOf: SeatMap
  /** By seat; kept only where a key cannot be had from the item. */
  #keys: unknown[] = []
  readonly #keepsKeys: boolean
  readonly #few: number
  #freeSeats: number[] = []
  /** How many seats there are, taken, resting or free: the length of what stands by seat. */
  #length = 0
  readonly #rests = new SeatFlags()
  #restingCount = 0
  /** How many keys are objects. While there are none, a key that becomes idle need not be looked at. */
  #objectCount = 0

  /** The sizes at which it works differently are given by tests alone. */
  constructor(keepsKeys: boolean, few: number = fewKeys, seatOf: SeatMap = new SeatMap()) {
    this.#keepsKeys = keepsKeys
    this.#few = few
    this.#seatOf = seatOf
  }

  /** How many keys have a seat, those that rest included. */
  get size(): number {
    return this.#seatOf.size
  }

  /** The seat of a key, which may rest there. */
  find(key: unknown): number | undefined {
    return this.#seatOf.get(key)
  }

  /** The key of a seat, for those that keep keys. */
  keyAt(seat: number): unknown {
    return this.#keys[seat]
  }

  /** The seat of a key, a new one if it has none. */
  take(key: unknown): number {
    const freeSeats = this.#freeSeats
    const freeSeat = freeSeats.length > 0 ? (freeSeats[freeSeats.length - 1] as number) : this.#length
    const seat = this.#seatOf.take(key, freeSeat)
    if (seat === freeSeat) this.#seated(seat, key)
    else if (this.#rests.has(seat)) {
      this.#rests.lower(seat)
      this.#restingCount--
    }
    return seat
  }

  /** Gives up a taken seat whose key is idle, or lets the key rest there. */
  leave(seat: number, key: unknown): void {
    if (this.#objectCount > 0 && isObject(key)) {
      this.#objectCount--
      this.#seatOf.delete(key)
      this.#free(seat)
      return
    }
    this.#rests.raise(seat)
    this.#restingCount++
    const takenCount = this.#seatOf.size - this.#restingCount
    if (this.#restingCount > this.#few + 4 * takenCount) this.#sweep()
  }

  /** A seat that was free is a new key's. */
  #seated(seat: number, key: unknown): void {
    if (seat === this.#length) this.#length++
    else this.#freeSeats.pop()
    if (isObject(key)) this.#objectCount++
    if (this.#keepsKeys) this.#keys[seat] = key
  }

  #free(seat: number): void {
    this.#freeSeats.push(seat)
    if (this.#keepsKeys) this.#keys[seat] = undefined
  }

  /** Forgets all keys that rest. */
  #sweep(): void {
    this.#seatOf.drop(this.#rests)
    for (let seat = 0; seat < this.#length; seat++) {
      if (!this.#rests.has(seat)) continue
      this.#rests.lower(seat)
      this.#free(seat)
    }
    this.#restingCount = 0
  }

  clear(): void {
    this.#seatOf.clear()
    this.#keys = []
    this.#freeSeats = []
    this.#length = 0
    this.#objectCount = 0
    this.#rests.clear()
    this.#restingCount = 0
  }

  /**
   * Whether so few seats are in use that it is worth while to close the gaps. Not while all of them are hardly more than
   * may rest anyhow: a stream of new names would do it after every sweep.
   */
  get sparse(): boolean {
    return this.#length >= Math.max(64, 4 * this.#few) && this.#seatOf.size * 8 <= this.#length
  }

  /** Closes the gaps, so that memory follows a burst down again. Answers the new seat by old seat. */
  renumber(): Uint32Array {
    const newSeats = this.#seatOf.renumber(this.#length)
    this.#keys = renumber(this.#keys, newSeats)
    this.#freeSeats = []
    this.#length = this.#seatOf.size
    this.#rests.renumber(newSeats)
    return newSeats
  }
}

function isObject(key: unknown): boolean {
  return typeof key === 'object' || typeof key === 'function'
}
