/** The stores that decide which entry is next. */
import { KeyMap } from './key-map.ts'
import { type Lane, Levels } from './priority-levels.ts'
import type { Entry } from './turn.ts'

/** What a WorkQueue asks of a store. It holds each pending entry once. */
export interface Queue<T> {
  push(entry: Entry<T>): void
  /** Added again while in the store: the entry carries its newest item and its highest priority. */
  touch(entry: Entry<T>, previousPriority: number): void
  /** The next entry; only called while `size > 0`. */
  pop(): Entry<T>
  readonly size: number
}

/** By priority, then first in first out. */
export class FifoQueue<T> extends Levels<T> implements Queue<T> {
  constructor() {
    super(() => new Ages())
  }
}

/** By priority, then groups in turn: a group with a thousand items makes another group wait for one. */
export class FairQueue<T> extends Levels<T> implements Queue<T> {
  constructor(groupOf: (item: T) => unknown) {
    super((priority) => new Groups(groupOf, priority))
  }
}

const smallestRing = 16

/**
 * First in, first out, in one array that wraps round. It doubles when full and halves when three quarters are empty, so
 * a burst of a million leaves nothing behind.
 */
class Ring<T> {
  #values: (T | undefined)[] = []
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): void {
    if (this.#size === this.#values.length) this.#resize(Math.max(smallestRing, this.#size * 2))
    this.#values[(this.#head + this.#size) & (this.#values.length - 1)] = value
    this.#size++
  }

  /** The oldest value, left in the ring; only while `size > 0`. */
  peek(): T {
    return this.#values[this.#head] as T
  }

  /** Takes the oldest value; only while `size > 0`. */
  shift(): T {
    const values = this.#values
    const head = this.#head
    const value = values[head] as T
    values[head] = undefined
    this.#head = (head + 1) & (values.length - 1)
    this.#size--
    if (values.length > smallestRing && this.#size * 4 <= values.length) this.#resize(values.length / 2)
    return value
  }

  /** Drops every value that does not pass, keeping the order of the rest. */
  keep(passes: (value: T) => boolean): void {
    for (let left = this.#size; left > 0; left--) {
      const value = this.shift()
      if (passes(value)) this.push(value)
    }
  }

  #resize(capacity: number): void {
    const values = this.#values
    const mask = values.length - 1
    const resized = new Array<T | undefined>(capacity).fill(undefined)
    for (let i = 0; i < this.#size; i++) resized[i] = values[(this.#head + i) & mask]
    this.#values = resized
    this.#head = 0
  }
}

/** One level of a FifoQueue. */
class Ages<T> extends Ring<Entry<T>> implements Lane<T> {
  /** The position it had is known to be stale by the entry's priority. */
  leave(): void {}
}

interface Group<T> {
  readonly name: unknown
  readonly entries: Ring<Entry<T>>
  liveCount: number
}

/**
 * One level of a FairQueue. A group stands in `#turns` while it has entries; one whose entries are all stale is out
 * of `#groups`, so that its next entry begins a new group at the end.
 */
class Groups<T> implements Lane<T> {
  readonly #groupOf: (item: T) => unknown
  readonly #priority: number
  readonly #groups = new KeyMap<Group<T>>()
  /** Where an entry is; its item, and with it what `groupOf` says, may have been renewed since. */
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
