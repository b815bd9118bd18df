import type { Kind, Kinds } from './kinds.ts'
import type { Tickets } from './tickets.ts'

/**
 * Who waits on whom, in milliseconds. Everybody who waited for more than a millisecond is kept for a moment, until it is
 * known what the garbage collector and the event loop did meanwhile (both tell it late), and then the wait is shared
 * out among those who ran in it:
 *
 *     waited   ├──────────────────────────────────────────┤
 *     gc            ├──┤                                     first, for nothing else ran then
 *     turns    ├───┤    ├──────────────┤                     of its own lane, and those that stop the thread
 *     loop                                    ├───┤          what else the thread was busy with
 *     the rest                           ├────┤   ├────────┤ the store, when it waited for that; else `other`
 *
 * Waits of a kind that lie nearly alike, as those of a crowd do, are shared out together. What is shared out is never more than the wait: where turns went on side by side, as in a pool, each gets its part.
 */
export class Matrix {
  readonly #kinds: Kinds
  readonly #tickets: Tickets
  readonly #rows: (Row | undefined)[] = []
  readonly #pending: Pending[]
  #pendingCount = 0
  #pendingFirst = 0
  #cells = 0
  /** Cells that did not fit; their time went to `other`. */
  overflow = 0
  readonly #named: NamedHolders
  readonly #onSettled: ((wait: Pending, shares: readonly Share[]) => void) | undefined
  /** Reused, so that sharing out allocates nothing. */
  readonly #shares: Share[] = []
  #shareCount = 0

  constructor(parts: MatrixParts) {
    this.#kinds = parts.kinds
    this.#tickets = parts.tickets
    this.#named = parts.named
    this.#onSettled = parts.onSettled
    this.#pending = Array.from({ length: maxPending }, () => ({
      kind: 0,
      from: 0,
      to: 0,
      fallback: 0,
      what: undefined,
      count: 0,
      totalMs: 0,
    }))
  }

  /** A wait ended. `fallback` is charged for time in which no other kind ran. */
  waited(kind: number, from: number, to: number, fallback: number, what: string | undefined): void {
    const { alike } = this.#kinds.get(kind)
    if (alike !== undefined && alike.fallback === fallback && liesAlike(alike, from, to)) {
      alike.count++
      alike.totalMs += to - from
      return
    }
    if (this.#pendingCount === maxPending) this.#settleFirst()
    const wait = this.#pending[(this.#pendingFirst + this.#pendingCount++) % maxPending]!
    wait.kind = kind
    wait.from = from
    wait.to = to
    wait.fallback = fallback
    wait.what = what
    wait.count = 1
    wait.totalMs = to - from
    this.#kinds.get(kind).alike = wait
  }

  /** Shares out the waits that ended before that instant. */
  settle(until: number): void {
    while (this.#pendingCount > 0 && this.#pending[this.#pendingFirst]!.to <= until) this.#settleFirst()
  }

  /** Every cell that has something in it, greatest first. */
  cells(): readonly Cell[] {
    const cells: Cell[] = []
    for (const [waiter, row] of this.#rows.entries()) {
      if (row === undefined) continue
      row.ms.forEach((ms, holder) => {
        if (ms > 0) cells.push({ waiter, holder, ms, count: row.counts[holder]! })
      })
    }
    return cells.sort((one, other) => other.ms - one.ms)
  }

  #settleFirst(): void {
    const wait = this.#pending[this.#pendingFirst]!
    this.#pendingFirst = (this.#pendingFirst + 1) % maxPending
    this.#pendingCount--
    const kind = this.#kinds.get(wait.kind)
    if (kind.alike === wait) kind.alike = undefined
    this.#shareOut(wait)
    this.#onSettled?.(wait, this.#shares.slice(0, this.#shareCount))
    wait.what = undefined
  }

  #shareOut({ kind: id, from, to, fallback, count, totalMs }: Pending): void {
    const waiter = this.#kinds.get(id)
    const { gc, eventLoop, host } = this.#named
    this.#shareCount = 0
    let left = to - from
    left -= this.#share(gc, Math.min(left, between(gc, from, to)))
    const first = this.#shareCount
    for (const holder of this.#kinds.sync) {
      if (holder.lane !== waiter.lane || holder.lane === undefined)
        this.#share(holder, between(holder, from, to))
    }
    if (waiter.lane !== undefined) {
      for (const holder of waiter.lane.kinds) this.#share(holder, between(holder, from, to))
      this.#tickets.eachOpen(waiter.lane, (holder, enteredAt) => {
        if (enteredAt < to) this.#share(this.#kinds.get(holder), to - Math.max(from, enteredAt))
      })
    }
    left -= this.#scale(first, left)
    left -= this.#share(eventLoop, Math.min(left, between(eventLoop, from, to)))
    left -= this.#share(host, Math.min(left, between(host, from, to)))
    this.#share(this.#kinds.get(fallback), left)
    const row = this.#rowOf(waiter.id)
    const scale = totalMs / (to - from)
    for (let index = 0; index < this.#shareCount; index++) {
      const { holder, ms } = this.#shares[index]!
      this.#add(row, holder, ms * scale, count)
    }
  }

  #share(holder: Kind, ms: number): number {
    // A millionth of a millisecond is what is left of adding up.
    if (!(ms > 1e-6)) return 0
    const share = this.#shares[this.#shareCount]
    if (share === undefined) this.#shares.push({ holder: holder.id, ms })
    else {
      share.holder = holder.id
      share.ms = ms
    }
    this.#shareCount++
    return ms
  }

  /** Makes the shares from `first` on fit into what is left; answers their sum. */
  #scale(first: number, left: number): number {
    let sum = 0
    for (let index = first; index < this.#shareCount; index++) sum += this.#shares[index]!.ms
    if (sum <= left) return sum
    for (let index = first; index < this.#shareCount; index++) this.#shares[index]!.ms *= left / sum
    return left
  }

  #rowOf(waiter: number): Row {
    let row = this.#rows[waiter]
    if (row === undefined) {
      row = { ms: new Float64Array(this.#kinds.max), counts: new Float64Array(this.#kinds.max) }
      this.#rows[waiter] = row
    }
    return row
  }

  #add(row: Row, holder: number, ms: number, count: number): void {
    let column = holder
    if (row.ms[column] === 0) {
      if (this.#cells < maxCells) this.#cells++
      else {
        this.overflow++
        column = 0
      }
    }
    row.ms[column]! += ms
    row.counts[column]! += count
  }
}

export interface MatrixParts {
  readonly kinds: Kinds
  readonly tickets: Tickets
  readonly named: NamedHolders
  /** Learns what became of each wait. */
  readonly onSettled?: (wait: Pending, shares: readonly Share[]) => void
}

/** Holders that are no commands. */
export interface NamedHolders {
  readonly gc: Kind
  /** Other code on the thread, which reported nothing. */
  readonly eventLoop: Kind
  /** The host did not let us run. */
  readonly host: Kind
}

export interface Cell {
  readonly waiter: number
  readonly holder: number
  readonly ms: number
  /** How many waits it had a share in. */
  readonly count: number
}

/** A wait that is not shared out yet, with those of its kind that lie alike. */
export interface Pending {
  kind: number
  /** Of the first of them. */
  from: number
  to: number
  fallback: number
  what: string | undefined
  count: number
  totalMs: number
}

export interface Share {
  holder: number
  ms: number
}

interface Row {
  readonly ms: Float64Array
  readonly counts: Float64Array
}

const maxPending = 2_048
/** Each may become a line of Prometheus's. */
const maxCells = 2_000

/** Within a twentieth of its length. */
function liesAlike(wait: Pending, from: number, to: number): boolean {
  return Math.abs(from - wait.from) + Math.abs(to - wait.to) < (to - from) / 20
}

function between({ holds }: Kind, from: number, to: number): number {
  return holds === undefined || holds.lastAt <= from ? 0 : holds.between(from, to)
}
