/** The stores that decide who is next. */
import { KeyMap } from './indexed/key-map.ts'
import { type Lane, Levels } from './priority-levels.ts'
import { Ring } from './ring.ts'
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
