import type { FinalState } from '../../jobs/index.ts'
import type { Row } from './job-row.ts'

/**
 * Where live jobs stand: the lines of those that can be claimed some day, the set of those that run, and the unique keys
 * of both and of those that wait for something. Only the four moves below take a row from one to the other.
 */
export class Standing {
  /** By queue and kind, so that neither a paused queue nor an unknown kind is ever walked through. */
  readonly #lines = new Map<string, Map<string, Line>>()
  readonly #running = new Set<Row>()
  /** The live job of each (queue, unique key). */
  readonly #keys = new Map<string, Map<string, Row>>()
  /** No lease of those that run ends before: most looks for one that ran out need not be made. */
  #leasesLastUntil = Number.POSITIVE_INFINITY

  get running(): ReadonlySet<Row> {
    return this.#running
  }

  /** Queues it, whatever its state was. */
  enqueue(row: Row, now: number): void {
    this.#letGo(row)
    row.stored = 'queued'
    this.#keepKey(row)
    this.#lineOf(row).add(row, now)
  }

  /** Keeps a job that stands in no line until something lets it on. */
  hold(row: Row): void {
    row.place?.line.remove(row)
    this.#letGo(row)
    row.stored = 'waiting'
    this.#keepKey(row)
  }

  /** It runs from now on. */
  start(row: Row, token: string, leaseEndsAt: number): void {
    row.place?.line.remove(row)
    row.stored = 'running'
    row.token = token
    row.leaseEndsAt = leaseEndsAt
    this.#running.add(row)
    this.#leasesLastUntil = Math.min(this.#leasesLastUntil, leaseEndsAt)
  }

  /** It lives no more. */
  end(row: Row, state: FinalState): void {
    row.place?.line.remove(row)
    this.#letGo(row)
    row.stored = state
    this.#dropKey(row)
  }

  /** Those whose lease ran out, the one that ended first before the others. */
  lapsed(now: number): readonly Row[] {
    // A lease is renewed to a later end, never to an earlier one.
    if (now < this.#leasesLastUntil) return []
    const lapsed: Row[] = []
    this.#leasesLastUntil = Number.POSITIVE_INFINITY
    for (const row of this.#running) {
      if (row.leaseEndsAt <= now) lapsed.push(row)
      this.#leasesLastUntil = Math.min(this.#leasesLastUntil, row.leaseEndsAt)
    }
    return lapsed.sort((a, b) => a.leaseEndsAt - b.leaseEndsAt)
  }

  /** The live job with this key. */
  withKey(queue: string, uniqueKey: string): Row | undefined {
    return this.#keys.get(queue)?.get(uniqueKey)
  }

  /** Whether a live job of that queue has a unique key. */
  hasKeyIn(queue: string): boolean {
    return this.#keys.has(queue)
  }

  #lineOf({ queue, kind }: Row): Line {
    const kinds = this.#lines.get(queue) ?? new Map<string, Line>()
    this.#lines.set(queue, kinds)
    const line = kinds.get(kind) ?? new Line()
    kinds.set(kind, line)
    return line
  }

  /** The wait queues of these kinds, or of all; empty ones are forgotten, because names come and go. */
  linesOf(queue: string, kinds: readonly string[] | null): readonly Line[] {
    const known = this.#lines.get(queue)
    if (!known) return []
    for (const [kind, line] of known) if (line.isEmpty) known.delete(kind)
    if (kinds === null) return [...known.values()]
    return [...new Set(kinds)].flatMap((kind) => known.get(kind) ?? [])
  }

  #keepKey(row: Row): void {
    if (row.uniqueKey === null) return
    const keys = this.#keys.get(row.queue) ?? new Map<string, Row>()
    this.#keys.set(row.queue, keys.set(row.uniqueKey, row))
  }

  /** A queue whose last key went is forgotten, for names come and go. */
  #dropKey({ queue, uniqueKey }: Row): void {
    const keys = uniqueKey === null ? undefined : this.#keys.get(queue)
    if (keys?.delete(uniqueKey!) && keys.size === 0) this.#keys.delete(queue)
  }

  #letGo(row: Row): void {
    this.#running.delete(row)
    row.token = null
    row.cancelRequested = false
  }
}

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
