/**
 * The slowest turns there were lately: the slowest hundred of this hour and of the one before, so that what was slow at the
 * start does not hide for ever what is slow now.
 */
export class Slowest {
  readonly #size: number
  #hour: SlowTurn[] = []
  #before: SlowTurn[] = []
  #hourBegan: number
  /** What a turn must be slower than to be among them. */
  #floorMs = 0

  constructor(size: number, now: number) {
    this.#size = size
    this.#hourBegan = now
  }

  /** Cheap for nearly all: one comparison. */
  note(kind: number, what: string | undefined, waitMs: number, holdMs: number, leftAt: number): void {
    if (waitMs + holdMs <= this.#floorMs) return
    const turn = { kind, what: shorten(what), waitMs, holdMs, leftAt }
    if (this.#hour.length < this.#size) this.#hour.push(turn)
    else this.#hour[this.#fastest()] = turn
    if (this.#hour.length === this.#size) this.#floorMs = lengthOf(this.#hour[this.#fastest()]!)
  }

  /** Slowest first. */
  list(now: number): readonly SlowTurn[] {
    this.tick(now)
    return [...this.#hour, ...this.#before]
      .sort((one, other) => lengthOf(other) - lengthOf(one))
      .slice(0, this.#size)
  }

  #fastest(): number {
    let found = 0
    for (let index = 1; index < this.#hour.length; index++) {
      if (lengthOf(this.#hour[index]!) < lengthOf(this.#hour[found]!)) found = index
    }
    return found
  }

  /** To be called now and then, and before it is read: an hour may be over. */
  tick(now: number): void {
    if (now - this.#hourBegan <= hourMs) return
    this.#before = now - this.#hourBegan > 2 * hourMs ? [] : this.#hour
    this.#hour = []
    this.#hourBegan = now
    this.#floorMs = 0
  }
}

export interface SlowTurn {
  readonly kind: number
  readonly what: string | undefined
  readonly waitMs: number
  readonly holdMs: number
  readonly leftAt: number
}

const hourMs = 3_600_000
const maxWhat = 191

function lengthOf({ waitMs, holdMs }: SlowTurn): number {
  return waitMs + holdMs
}

function shorten(what: string | undefined): string | undefined {
  return what !== undefined && what.length > maxWhat ? what.slice(0, maxWhat).toWellFormed() : what
}
