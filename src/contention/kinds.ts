import type { KindTraits } from '../core/meter.ts'
import { Histogram } from './histogram.ts'
import { Holds } from './holds.ts'
import type { Pending } from './wait-matrix.ts'

/**
 * The kinds of commands, and the lanes they stand in, as small numbers. The capacity is a fixed number of each; what
 * comes beyond it is counted as `other`, so that no name ever makes memory grow.
 */
export class Kinds {
  readonly #byName = new Map<string, number>()
  readonly #all: Kind[] = []
  readonly #lanesByName = new Map<string, Lane>()
  /** How many there can be. */
  readonly max: number
  /** Kinds whose turns stop the thread. */
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
    const lane = { name, size, kinds: [], open: -1, waiting: 0, peakWaiting: 0, holding: 0 }
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
  /** The newest ticket whose turn is not over; -1 when there is none. */
  open: number
  waiting: number
  peakWaiting: number
  holding: number
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
