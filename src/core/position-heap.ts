/**
 * A heap that knows where each of its items lies, so that an item can be moved or taken out at once. The registry keeps
 * its timers in one, each level of a wait queue keeps its tenants in one, and a delaying queue its delayed items.
 */

/** An item of a heap. */
export interface HeapItem {
  /** The item with the lowest number comes first. */
  at: number
  /** By which call it was set, which decides among equals. */
  order: number
  /** Its index in the heap; -1: not in it. */
  position: number
}

/** Items by `at`, and equal ones in the order in which they were set. */
export class PositionHeap<T extends HeapItem> {
  #items: T[] = []
  #lastOrder = 0

  get size(): number {
    return this.#items.length
  }

  get first(): T | undefined {
    return this.#items[0]
  }

  /** Puts an item in, or moves one that is in; among equals it is now the last. */
  set(item: T, at: number): void {
    item.at = at
    item.order = ++this.#lastOrder
    if (item.position < 0) {
      item.position = this.#items.length
      this.#items.push(item)
    }
    this.#rise(item)
    this.#sink(item)
  }

  /** Takes an item out, if it is in. */
  clear(item: T): void {
    const { position } = item
    if (position < 0) return
    item.position = -1
    const last = this.#items.pop()!
    // A burst leaves nothing behind.
    if (this.#items.length === 0) this.#items = []
    if (last === item) return
    last.position = position
    this.#items[position] = last
    this.#rise(last)
    this.#sink(last)
  }

  #rise(item: T): void {
    let { position } = item
    while (position > 0) {
      const above = (position - 1) >> 1
      const parent = this.#items[above]!
      if (isBefore(parent, item)) break
      this.#put(parent, position)
      position = above
    }
    this.#put(item, position)
  }

  #sink(item: T): void {
    const size = this.#items.length
    let { position } = item
    for (;;) {
      let below = position * 2 + 1
      if (below >= size) break
      if (below + 1 < size && isBefore(this.#items[below + 1]!, this.#items[below]!)) below += 1
      const child = this.#items[below]!
      if (isBefore(item, child)) break
      this.#put(child, position)
      position = below
    }
    this.#put(item, position)
  }

  #put(item: T, position: number): void {
    this.#items[position] = item
    item.position = position
  }
}

function isBefore(one: HeapItem, other: HeapItem): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}

/** A timer: what it is for, what it is about, and when it is due. */
export interface Timer<Kind extends string, Subject> extends HeapItem {
  readonly kind: Kind
  readonly subject: Subject
}

/** Makes a timer that is not set yet. */
export function createTimer<Kind extends string, Subject>(
  kind: Kind,
  subject: Subject,
): Timer<Kind, Subject> {
  return { kind, subject, at: 0, order: 0, position: -1 }
}
