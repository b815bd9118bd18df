/** How far a copy is. */
export type CopyNews =
  /** Some leases are live and not renewed: the copy begins when the last has ended. */
  | { readonly phase: 'waiting'; readonly leases: number; readonly restMs: number; readonly of: string }
  | ({ readonly phase: 'copying' | 'verifying' } & CopyReach)

export interface CopyReach {
  readonly table: string
  /** Of all tables together. */
  readonly rows: number
  readonly total: number
  /** Since this run began with the phase; 0 while that is unknown. */
  readonly rowsPerSecond: number
}

/** Counts rows of a phase, those of an earlier run too, and reports them at most ten times a second. */
export class Reach {
  readonly #phase: 'copying' | 'verifying'
  readonly #tell: (news: CopyNews) => void
  readonly #total: number
  readonly #startedAt = performance.now()
  #fresh = 0
  #rows: number
  #reportedAt = Number.NEGATIVE_INFINITY

  constructor(
    phase: 'copying' | 'verifying',
    {
      total,
      rows,
      tell,
    }: { readonly total: number; readonly rows: number; readonly tell: (news: CopyNews) => void },
  ) {
    this.#phase = phase
    this.#total = total
    this.#rows = rows
    this.#tell = tell
  }

  add(table: string, rows: number): void {
    this.#rows += rows
    this.#fresh += rows
    const now = performance.now()
    if (now - this.#reportedAt < 100 && this.#rows < this.#total) return
    this.#reportedAt = now
    const seconds = (now - this.#startedAt) / 1_000
    this.#tell({
      phase: this.#phase,
      table,
      rows: this.#rows,
      // What came meanwhile is more than was counted.
      total: Math.max(this.#total, this.#rows),
      rowsPerSecond: seconds > 0.05 ? Math.round(this.#fresh / seconds) : 0,
    })
  }
}
