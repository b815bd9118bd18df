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
  enqueue(row: Row): void {
    row.line?.remove(row)
    this.#letGo(row)
    row.stored = 'queued'
    this.#keepKey(row)
    this.#lineOf(row).add(row)
  }

  /** Keeps a job that stands in no line until something lets it on. */
  hold(row: Row): void {
    row.line?.remove(row)
    this.#letGo(row)
    row.stored = 'waiting'
    this.#keepKey(row)
  }

  /** It runs from now on. */
  start(row: Row, token: string, leaseEndsAt: number): void {
    row.line?.remove(row)
    row.stored = 'running'
    row.token = token
    row.leaseEndsAt = leaseEndsAt
    this.#running.add(row)
    this.#leasesLastUntil = Math.min(this.#leasesLastUntil, leaseEndsAt)
  }

  /** It lives no more. */
  end(row: Row, state: FinalState): void {
    row.line?.remove(row)
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

/** The jobs of one queue and kind that wait to be claimed, due or not, in the order of claiming. */
export class Line {
  readonly #rows: Row[] = []
  /** Where they begin: those before have left. To close the gap for each who is claimed would take long. */
  #start = 0

  get isEmpty(): boolean {
    return this.#rows.length === this.#start
  }

  add(row: Row): void {
    const rows = this.#rows
    let [from, to] = [this.#start, rows.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if (goesBefore(rows[middle]!, row)) from = middle + 1
      else to = middle
    }
    rows.splice(from, 0, row)
    row.line = this
  }

  /** Takes it out; it stands in this line. */
  remove(row: Row): void {
    const at = this.#rows.indexOf(row, this.#start)
    if (at > this.#start) this.#rows.splice(at, 1)
    else if (++this.#start > this.#rows.length / 2) {
      this.#rows.splice(0, this.#start)
      this.#start = 0
    }
    row.line = null
  }

  /** Who would be claimed first at this moment. */
  first(now: number): Row | undefined {
    for (let at = this.#start; at < this.#rows.length; at++) {
      const row = this.#rows[at]!
      if (row.runAt <= now) return row
    }
    return undefined
  }
}

/** The order of claiming: priority, higher first; then due time; then id. */
export function goesBefore(a: Row, b: Row): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  if (a.runAt !== b.runAt) return a.runAt < b.runAt
  return a.id < b.id
}
