import type { Kind, Kinds } from './kinds.ts'

/**
 * Which kind waits for which holder, in milliseconds. A wait of more than a millisecond stays pending for a moment,
 * because the garbage collector and the event loop report late. Then its time is divided among the holders that ran
 * during it:
 *
 *     waited   ├──────────────────────────────────────────┤
 *     gc            ├──┤                                     first, because nothing else ran then
 *     turns    ├───┤    ├──────────────┤                     in the same lane, and turns that block the thread
 *     loop                                    ├───┤          other work of the thread
 *     the rest                           ├────┤   ├────────┤ the store, if the wait was for it; else `other`
 *
 * Waits of a kind at nearly the same time, as those of a crowd, are divided together. The shares never exceed the wait:
 * parallel turns, as in a pool, each get a part.
 */
export class Matrix {
  readonly #parts: MatrixParts
  /** Oldest first. */
  readonly #pending: Pending[] = []
  /** By waiter, then by holder. */
  readonly #rows = new Map<number, Map<number, Cell>>()
  #cellCount = 0
  /** How many cells did not fit. Their time is charged to `other`. */
  overflow = 0

  constructor(parts: MatrixParts) {
    this.#parts = parts
  }

  /** Records a wait that ended. `fallback` is charged for the time in which no other kind ran. */
  waited(kindId: number, from: number, to: number, fallback: number, what: string | undefined): void {
    const kind = this.#parts.kinds.get(kindId)
    const { alike } = kind
    if (alike !== undefined && alike.fallback === fallback && liesAlike(alike, from, to)) {
      alike.count++
      alike.totalMs += to - from
      return
    }
    if (this.#pending.length === maxPending) this.#settleFirst()
    kind.alike = { kind: kindId, from, to, fallback, what, count: 1, totalMs: to - from }
    this.#pending.push(kind.alike)
  }

  /** Divides the waits that ended before that instant. */
  settle(until: number): void {
    while (this.#pending.length > 0 && this.#pending[0]!.to <= until) this.#settleFirst()
  }

  /** Every cell, greatest first. */
  cells(): readonly Cell[] {
    const cells = [...this.#rows.values()].flatMap((row) => [...row.values()])
    return cells.sort((one, other) => other.ms - one.ms)
  }

  #settleFirst(): void {
    const wait = this.#pending.shift()!
    const kind = this.#parts.kinds.get(wait.kind)
    if (kind.alike === wait) kind.alike = undefined
    const shares = this.#shareOut(kind, wait)
    const scale = wait.totalMs / (wait.to - wait.from)
    for (const { holder, ms } of shares) this.#add(kind.id, holder, ms * scale, wait.count)
    this.#parts.onSettled?.(wait, shares)
  }

  #shareOut(waiter: Kind, { from, to, fallback }: Pending): readonly Share[] {
    const { kinds, named } = this.#parts
    const shares: Share[] = []
    let left = to - from
    /** Charges a holder with its time, but at most with the rest of the wait. */
    const charge = (holder: Kind, ms: number) => {
      const share = Math.min(ms, left)
      // Smaller amounts are rounding errors of the sum.
      if (!(share > 1e-6)) return
      shares.push({ holder: holder.id, ms: share })
      left -= share
    }
    charge(named.gc, between(named.gc, from, to))
    const turns = turnsDuring(waiter, kinds.sync, from, to)
    const sum = turns.reduce((total, { ms }) => total + ms, 0)
    const scale = sum > left ? left / sum : 1
    for (const { holder, ms } of turns) charge(holder, ms * scale)
    charge(named.eventLoop, between(named.eventLoop, from, to))
    charge(named.host, between(named.host, from, to))
    charge(kinds.get(fallback), left)
    return shares
  }

  #add(waiter: number, holder: number, ms: number, count: number): void {
    let row = this.#rows.get(waiter)
    if (row === undefined) {
      row = new Map()
      this.#rows.set(waiter, row)
    }
    let cell = row.get(holder)
    if (cell === undefined && this.#cellCount >= maxCells) {
      this.overflow++
      cell = row.get(0)
    }
    if (cell === undefined) {
      const column = this.#cellCount < maxCells ? holder : 0
      cell = { waiter, holder: column, ms: 0, count: 0 }
      row.set(column, cell)
      this.#cellCount++
    }
    cell.ms += ms
    cell.count += count
  }
}

/** The turns during a wait: the turns of its lane, and the turns that block the thread. */
function turnsDuring(
  { lane }: Kind,
  sync: readonly Kind[],
  from: number,
  to: number,
): readonly { readonly holder: Kind; readonly ms: number }[] {
  const elsewhere = sync.filter((kind) => kind.lane === undefined || kind.lane !== lane)
  const ended = [...elsewhere, ...(lane?.kinds ?? [])].map((holder) => ({
    holder,
    ms: between(holder, from, to),
  }))
  const open = [...(lane?.open ?? [])].map(({ kind, enteredAt }) => ({
    holder: kind,
    ms: Math.max(0, to - Math.max(from, enteredAt!)),
  }))
  return [...ended, ...open].filter(({ ms }) => ms > 0)
}

export interface MatrixParts {
  readonly kinds: Kinds
  readonly named: NamedHolders
  /** Called with the shares of each wait. */
  readonly onSettled?: (wait: Pending, shares: readonly Share[]) => void
}

/** Holders that are not commands. */
export interface NamedHolders {
  readonly gc: Kind
  /** Other code on the thread, which does not report turns. */
  readonly eventLoop: Kind
  /** The host did not run the process. */
  readonly host: Kind
}

export interface Cell {
  readonly waiter: number
  readonly holder: number
  ms: number
  /** The number of waits in which the holder had a share. */
  count: number
}

/** A wait that is not divided yet, together with similar waits of its kind. */
export interface Pending {
  readonly kind: number
  /** The interval of the first wait. */
  readonly from: number
  readonly to: number
  readonly fallback: number
  readonly what: string | undefined
  count: number
  totalMs: number
}

export interface Share {
  readonly holder: number
  readonly ms: number
}

const maxPending = 2_048
/** Limited, because each cell may become a time series of Prometheus. */
const maxCells = 2_000

/** Whether an interval differs from that of a wait by less than a twentieth of its length. */
function liesAlike(wait: Pending, from: number, to: number): boolean {
  return Math.abs(from - wait.from) + Math.abs(to - wait.to) < (to - from) / 20
}

function between({ holds }: Kind, from: number, to: number): number {
  return holds === undefined || holds.lastAt <= from ? 0 : holds.between(from, to)
}
