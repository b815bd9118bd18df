import { type HeapItem, PositionHeap } from '../core/position-heap.ts'
import { Ring } from '../core/ring.ts'
import { KeyMap } from './key-map.ts'
import type { Entry } from './turn.ts'

/** The store of a WorkQueue: decides which entry is next. It holds each pending entry once. */
export interface Queue<T> {
  push(entry: Entry<T>): void
  /** Called when an entry in the store was added again: it now has its newest item and its highest priority. */
  touch(entry: Entry<T>, previousPriority: number): void
  /** The next entry; only called while `size > 0`. */
  pop(): Entry<T>
  readonly size: number
}

/** The positions of one level, including stale ones, in the order in which they are served. */
export interface Lane<T> {
  readonly size: number
  push(entry: Entry<T>): void
  /** Called when the entry's priority rose: its position in this level is now stale. */
  leave(entry: Entry<T>): void
  /** The next position; only while `size > 0`. */
  shift(): Entry<T>
  /** Drops the positions for which `passes` is false. */
  keep(passes: (entry: Entry<T>) => boolean): void
}

/** A priority level. The heap orders levels by priority, the highest first. */
interface Level<T> extends HeapItem {
  readonly priority: number
  readonly lane: Lane<T>
}

/** With fewer stale positions than this, a sweep is not worthwhile. */
const spareStale = 32

/**
 * Entries by priority, the highest level first.
 *
 * An entry whose priority rises gets a position at the end of its new level. Its old position becomes stale and is
 * skipped later. A position is stale if the entry's priority differs from the level, so no further record is needed.
 * Stale positions are removed before they outnumber the live ones.
 */
export abstract class Levels<T> {
  readonly #laneFor: (priority: number) => Lane<T>
  readonly #levels = new Map<number, Level<T>>()
  /** Usually it has one level. */
  readonly #ranks = new PositionHeap<Level<T>>()
  #size = 0
  #stale = 0

  constructor(laneFor: (priority: number) => Lane<T>) {
    this.#laneFor = laneFor
  }

  get size(): number {
    return this.#size
  }

  push(entry: Entry<T>): void {
    this.#enter(entry)
    this.#size++
  }

  touch(entry: Entry<T>, previousPriority: number): void {
    if (entry.priority === previousPriority) return
    this.#enter(entry)
    this.#levels.get(previousPriority)?.lane.leave(entry)
    if (++this.#stale > this.#size + spareStale) this.#sweep()
  }

  pop(): Entry<T> {
    for (;;) {
      const top = this.#ranks.first!
      if (top.lane.size === 0) {
        this.#drop(top)
        continue
      }
      const entry = top.lane.shift()
      if (entry.priority !== top.priority) {
        this.#stale--
        continue
      }
      this.#size--
      // Stale positions would keep taken entries in memory.
      if (this.#size === 0 && this.#stale > 0) this.#sweep()
      return entry
    }
  }

  #enter(entry: Entry<T>): void {
    const top = this.#ranks.first
    const level = top?.priority === entry.priority ? top : this.#level(entry.priority)
    level.lane.push(entry)
  }

  #level(priority: number): Level<T> {
    let level = this.#levels.get(priority)
    if (level === undefined) {
      level = { priority, lane: this.#laneFor(priority), at: 0, order: 0, position: -1 }
      this.#levels.set(priority, level)
      this.#ranks.set(level, -priority)
    }
    return level
  }

  #drop(level: Level<T>): void {
    this.#levels.delete(level.priority)
    this.#ranks.clear(level)
  }

  #sweep(): void {
    for (const level of this.#levels.values()) {
      level.lane.keep((entry) => entry.priority === level.priority)
      if (level.lane.size === 0) this.#drop(level)
    }
    this.#stale = 0
  }
}

/** By priority, then first in first out. */
export class FifoQueue<T> extends Levels<T> implements Queue<T> {
  constructor() {
    super(() => new FifoLane())
  }
}

/** By priority, then one item of each group in turn: a group with many items delays another group by one item only. */
export class FairQueue<T> extends Levels<T> implements Queue<T> {
  constructor(groupOf: (item: T) => unknown) {
    super((priority) => new FairLane(groupOf, priority))
  }
}

/** One level of a FifoQueue. */
class FifoLane<T> extends Ring<Entry<T>> implements Lane<T> {
  /** Nothing to do: the entry's priority shows that its position is stale. */
  leave(): void {}
}

interface Group<T> {
  readonly name: unknown
  readonly entries: Ring<Entry<T>>
  liveCount: number
}

/**
 * One level of a FairQueue. A group is in `#turns` while it has entries. If all its entries are stale, it is not in
 * `#groups`, so that its next entry begins a new group at the end.
 */
class FairLane<T> implements Lane<T> {
  readonly #groupOf: (item: T) => unknown
  readonly #priority: number
  readonly #groups = new KeyMap<Group<T>>()
  /** The group of each entry. `groupOf` may answer another group, because the entry's item may have changed since. */
  readonly #homes = new Map<Entry<T>, Group<T>>()
  readonly #turns = new Ring<Group<T>>()
  #size = 0

  constructor(groupOf: (item: T) => unknown, priority: number) {
    this.#groupOf = groupOf
    this.#priority = priority
  }

  get size(): number {
    return this.#size
  }

  push(entry: Entry<T>): void {
    const name = this.#groupOf(entry.item)
    let group = this.#groups.get(name)
    if (group === undefined) {
      group = { name, entries: new Ring(), liveCount: 0 }
      this.#groups.enter(name, group)
      this.#turns.push(group)
    }
    group.entries.push(entry)
    group.liveCount++
    this.#homes.set(entry, group)
    this.#size++
  }

  leave(entry: Entry<T>): void {
    const group = this.#homes.get(entry) as Group<T>
    this.#homes.delete(entry)
    if (--group.liveCount === 0) this.#groups.delete(group.name)
  }

  shift(): Entry<T> {
    const group = this.#turns.peek()
    const entry = group.entries.shift()
    const isStale = entry.priority !== this.#priority
    this.#size--
    if (!isStale) this.leave(entry)
    // A stale entry uses no turn: the group stays in front.
    if (isStale && group.entries.size > 0) return entry
    this.#turns.shift()
    if (group.entries.size > 0) this.#turns.push(group)
    return entry
  }

  keep(passes: (entry: Entry<T>) => boolean): void {
    this.#size = 0
    this.#turns.keep(({ entries }) => {
      entries.keep(passes)
      this.#size += entries.size
      return entries.size > 0
    })
  }
}
