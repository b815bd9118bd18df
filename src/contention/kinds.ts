import type { KindTraits } from '../core/meter.ts'
import { Histogram } from './histogram.ts'
import type { Pending } from './wait-matrix.ts'

/**
 * The kinds of commands and their lanes, as small numbers. The capacity is fixed; kinds beyond it count as `other`, so that
 * names cannot make memory grow.
 */
export class Kinds {
  readonly #byName = new Map<string, number>()
  readonly #all: Kind[] = []
  readonly #lanesByName = new Map<string, Lane>()
  /** How many there can be. */
  readonly max: number
  /** Kinds that block the thread. */
  readonly sync: Kind[] = []
  /** Names that did not fit. */
  overflow = 0

  constructor(max: number) {
    this.max = max
    this.of(otherName)
  }

  of(name: string, { lane, size = 1, sync = false, warnMs }: KindTraits = {}): number {
    const known = this.#byName.get(name)
    if (known !== undefined) return known
    if (this.#all.length >= this.max) {
      this.overflow++
      return 0
    }
    const kind: Kind = {
      id: this.#all.length,
      name,
      lane: lane === undefined ? undefined : this.lane(lane, size),
      sync,
      warnMs,
      slow: undefined,
      alike: undefined,
      holds: undefined,
      wait: undefined,
      hold: undefined,
    }
    this.#all.push(kind)
    this.#byName.set(name, kind.id)
    kind.lane?.kinds.push(kind)
    if (sync) this.sync.push(kind)
    return kind.id
  }

  /** The kind of a number; `other` for one that never was given. */
  get(id: number): Kind {
    return this.#all[id] ?? this.#all[0]!
  }

  lane(name: string, size = 1): Lane | undefined {
    const known = this.#lanesByName.get(name)
    if (known !== undefined) {
      if (size > known.size) known.size = size
      return known
    }
    if (this.#lanesByName.size >= maxLanes) return undefined
    const lane = { name, size, kinds: [], open: new Set<OpenTurn>(), waiting: 0, peakWaiting: 0 }
    this.#lanesByName.set(name, lane)
    return lane
  }

  [Symbol.iterator](): Iterator<Kind> {
    return this.#all[Symbol.iterator]()
  }

  get lanes(): Iterable<Lane> {
    return this.#lanesByName.values()
  }
}

export interface Kind {
  readonly id: number
  readonly name: string
  readonly lane: Lane | undefined
  readonly sync: boolean
  readonly warnMs: number | undefined
  /** Its slow waits that were not reported yet. */
  slow: SlowRun | undefined
  /** The last of its waits that is not shared out yet. */
  alike: Pending | undefined
  /** Made when it first has a turn, or a wait. */
  holds: Holds | undefined
  wait: Histogram | undefined
  hold: Histogram | undefined
}

/** The slow waits of a kind that were not reported yet; the first of them begins the interval. */
export interface SlowRun {
  readonly beganAt: number
  count: number
  /** The longest of them. */
  longest: {
    readonly ms: number
    readonly endedAt: number
    readonly what: string | undefined
    readonly holders: readonly { readonly holder: string; readonly ms: number }[]
  }
}

export interface Lane {
  readonly name: string
  size: number
  readonly kinds: Kind[]
  /** The turns that are not over. */
  readonly open: Set<OpenTurn>
  waiting: number
  peakWaiting: number
}

/** A wait or a turn that is not over. */
export interface OpenTurn {
  readonly kind: Kind
  readonly begunAt: number
  /** Undefined while it waits. */
  enteredAt: number | undefined
  readonly what: string | undefined
}

const maxLanes = 64
/** The name of kinds that did not fit. */
export const otherName = 'other'

/** A turn of this kind. */
export function noteHold(kind: Kind, from: number, to: number): void {
  kind.hold ??= new Histogram()
  kind.hold.record(to - from)
  // Without a waiter, the time of each run is not needed.
  if (kind.lane === undefined && !kind.sync) return
  kind.holds ??= new Holds()
  kind.holds.add(from, to)
}

export function noteWait(kind: Kind, ms: number): void {
  kind.wait ??= new Histogram()
  kind.wait.record(ms)
}

/**
 * The recent turns of a kind, in fixed memory: a ring of spans, to find out who ran during a wait. A turn of a millisecond or
 * more has its own span. Shorter turns that follow closely share a span with their total time.
 */
export class Holds {
  readonly #size: number
  readonly #from: Float64Array
  readonly #to: Float64Array
  /** Milliseconds of turns within the span; more than its length where turns went on side by side. */
  readonly #busy: Float64Array
  /** How many spans were ever begun; the newest lies at `#count - 1`, modulo the size. */
  #count = 0

  constructor(size: number = recentHolds) {
    this.#size = size
    this.#from = new Float64Array(size)
    this.#to = new Float64Array(size)
    this.#busy = new Float64Array(size)
  }

  /** A turn from one instant to another. */
  add(from: number, to: number, busyMs: number = to - from): void {
    if (!(to > from)) return
    const last = (this.#count - 1) % this.#size
    if (this.#count > 0 && to - from < ownSpanMs && this.#joins(last, from, to)) {
      if (from < this.#from[last]!) this.#from[last] = from
      if (to > this.#to[last]!) this.#to[last] = to
      this.#busy[last]! += busyMs
      return
    }
    const at = this.#count++ % this.#size
    this.#from[at] = from
    this.#to[at] = to
    this.#busy[at] = busyMs
  }

  /** When the newest span ended; nothing overlaps what began after it. */
  get lastAt(): number {
    return this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#to[(this.#count - 1) % this.#size]!
  }

  /** How many milliseconds of turns lie between two instants. */
  between(from: number, to: number): number {
    let ms = 0
    const oldest = Math.max(0, this.#count - this.#size)
    for (let number = this.#count - 1; number >= oldest; number--) {
      const at = number % this.#size
      const end = this.#to[at]!
      // Spans lie in the order in which they ended.
      if (end <= from) break
      const start = this.#from[at]!
      if (start >= to) continue
      const overlap = Math.min(end, to) - Math.max(start, from)
      ms += (overlap / (end - start)) * this.#busy[at]!
    }
    return ms
  }

  #joins(last: number, from: number, to: number): boolean {
    const [start, end] = [this.#from[last]!, this.#to[last]!]
    const isShort = this.#busy[last]! < sharedSpanMs && end - start < sharedSpanMs
    return isShort && from >= start && from - end < ownSpanMs && to - start <= sharedSpanMs
  }
}

/** With spans of 4 ms at the least when turns are many, that is 4 s of past. */
export const recentHolds = 1_024
const ownSpanMs = 1
const sharedSpanMs = 4
