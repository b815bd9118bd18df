import type { KindTraits } from '../core/meter.ts'
import { Histogram } from './histogram.ts'
import type { Pending } from './wait-matrix.ts'

/**
 * The kinds of commands as small numbers, and their lanes. A lane is a wait queue or a pool. The capacity is fixed:
 * further kinds count as `other`, so that names cannot make memory grow.
 */
export class Kinds {
  readonly #byName = new Map<string, number>()
  readonly #all: Kind[] = []
  readonly #lanesByName = new Map<string, Lane>()
  /** The most kinds. */
  readonly max: number
  /** Kinds that block the thread. */
  readonly sync: Kind[] = []
  /** How many names did not fit. */
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

  /** The kind of a number; `other` for an unknown number. */
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
  /** Slow waits of this kind that were not reported yet. */
  slow: SlowRun | undefined
  /** The last pending wait of this kind. */
  alike: Pending | undefined
  /** Created with the first turn or wait. */
  holds: Holds | undefined
  wait: Histogram | undefined
  hold: Histogram | undefined
}

/** The slow waits of a kind that were not reported yet. The first one begins the interval. */
export interface SlowRun {
  readonly beganAt: number
  count: number
  /** The longest wait. */
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
  /** The running turns. */
  readonly open: Set<OpenTurn>
  waiting: number
  peakWaiting: number
}

/** A wait or a turn that has not ended. */
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

/** Records a turn of this kind. */
export function noteHold(kind: Kind, from: number, to: number): void {
  kind.hold ??= new Histogram()
  kind.hold.record(to - from)
  // The times of turns are needed only for kinds that can delay a waiter.
  if (kind.lane === undefined && !kind.sync) return
  kind.holds ??= new Holds()
  kind.holds.add(from, to)
}

export function noteWait(kind: Kind, ms: number): void {
  kind.wait ??= new Histogram()
  kind.wait.record(ms)
}

/**
 * The recent turns of a kind, in fixed memory: a ring of spans, to find the turns during a wait. A turn of a
 * millisecond or more has its own span. Shorter turns that follow closely share a span with their total time.
 */
export class Holds {
  readonly #size: number
  readonly #from: Float64Array
  readonly #to: Float64Array
  /** Milliseconds of turns within the span. Parallel turns can make it longer than the span. */
  readonly #busy: Float64Array
  /** How many spans were ever begun. The newest is at `#count - 1`, modulo the size. */
  #count = 0

  constructor(size: number = recentHolds) {
    this.#size = size
    this.#from = new Float64Array(size)
    this.#to = new Float64Array(size)
    this.#busy = new Float64Array(size)
  }

  /** Adds a turn from one instant to another. */
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

  /** The end of the newest span. No span overlaps an interval that begins later. */
  get lastAt(): number {
    return this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#to[(this.#count - 1) % this.#size]!
  }

  /** The milliseconds of turns between two instants. */
  between(from: number, to: number): number {
    let ms = 0
    const oldest = Math.max(0, this.#count - this.#size)
    for (let number = this.#count - 1; number >= oldest; number--) {
      const at = number % this.#size
      const end = this.#to[at]!
      // Spans are in the order of their ends.
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

/** With many turns a span is at least 4 ms long, so the ring covers at least 4 s. */
export const recentHolds = 1_024
const ownSpanMs = 1
const sharedSpanMs = 4
