import type { Row } from './job-row.ts'

/**
 * The jobs of one queue and kind that wait to be claimed: those due in the order of claiming, the others in the order
 * in which they fall due. A job leaves by its row forgetting its entry; the heaps drop such entries as they meet them.
 */
export class Line {
  readonly #due = new Heap<Entry>(goesBefore)
  readonly #later = new Heap<Entry>((a, b) => a.runAt < b.runAt)
  #size = 0

  get isEmpty(): boolean {
    return this.#size === 0
  }

  /** Queues it by its due time; an earlier position is forgotten. */
  add(row: Row, now: number): void {
    const entry: Entry = { line: this, row, priority: row.priority, runAt: row.runAt, id: row.id }
    if (row.place === null) this.#size += 1
    row.place = entry
    if (entry.runAt <= now) this.#due.push(entry)
    else this.#later.push(entry)
  }

  /** Takes it out; it stands in this line. */
  remove(row: Row): void {
    row.place = null
    this.#size -= 1
  }

  /** Who would be claimed first at this moment. */
  first(now: number): Entry | undefined {
    for (let entry = this.#later.first; entry; entry = this.#later.first) {
      if (waits(entry) && entry.runAt > now) break
      this.#later.pop()
      if (waits(entry)) this.#due.push(entry)
    }
    for (let entry = this.#due.first; entry; entry = this.#due.first) {
      if (waits(entry) && entry.runAt <= now) return entry
      this.#due.pop()
      // The clock was set back: it is not due any more.
      if (waits(entry)) this.#later.push(entry)
    }
    return undefined
  }
}

/** A position. It copies the fields of the order, so that the heap never changes while it sorts. */
export interface Entry {
  readonly line: Line
  readonly row: Row
  readonly priority: number
  readonly runAt: number
  readonly id: string
}

function waits(entry: Entry): boolean {
  return entry.row.place === entry
}

/** The order of claiming: priority, higher first; then due time; then id. */
export function goesBefore(a: Entry, b: Entry): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  if (a.runAt !== b.runAt) return a.runAt < b.runAt
  return a.id < b.id
}

/** A binary heap: its first is the one that goes before all others. */
class Heap<Item> {
  readonly #items: Item[] = []
  readonly #before: (a: Item, b: Item) => boolean

  constructor(before: (a: Item, b: Item) => boolean) {
    this.#before = before
  }

  get first(): Item | undefined {
    return this.#items[0]
  }

  push(item: Item): void {
    const items = this.#items
    let at = items.push(item) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.#before(item, items[parent]!)) break
      items[at] = items[parent]!
      at = parent
    }
    items[at] = item
  }

  pop(): void {
    const items = this.#items
    const item = items.pop()
    if (item === undefined || items.length === 0) return
    let at = 0
    for (let child = 1; child < items.length; child = 2 * at + 1) {
      if (child + 1 < items.length && this.#before(items[child + 1]!, items[child]!)) child++
      if (!this.#before(items[child]!, item)) break
      items[at] = items[child]!
      at = child
    }
    items[at] = item
  }
}
