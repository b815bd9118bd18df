import { duration, whole, withDefaults } from '../core/options.ts'

export interface CopyOptions {
  /** How long to wait for leases that are not renewed. @default 60_000 */
  readonly waitMs?: number
  /** The number of rows in one transaction, and so the most that a kill loses. @default 5_000 */
  readonly pageRows?: number
  /** Called with the progress, several times a second. @default none */
  readonly onNews?: (news: CopyNews) => void
}

export const copyDefaults: Required<CopyOptions> = {
  waitMs: 60_000,
  pageRows: 5_000,
  onNews: () => undefined,
}

export function resolveCopyOptions(options: CopyOptions): Required<CopyOptions> {
  const { waitMs, pageRows, onNews } = withDefaults('copy', options, copyDefaults)
  return {
    waitMs: duration('waitMs', waitMs, { min: 0, max: 86_400_000 }),
    pageRows: whole('pageRows', pageRows, { min: 1, max: 100_000 }),
    onNews,
  }
}

/** The progress of a copy. */
export type CopyNews =
  /** Some leases are live but not renewed: the copy begins when the last of them expires. */
  | { readonly phase: 'waiting'; readonly leases: number; readonly restMs: number; readonly of: string }
  | ({ readonly phase: 'copying' | 'verifying' } & CopyReach)

export interface CopyReach {
  readonly table: string
  /** Of all tables together. */
  readonly rows: number
  readonly total: number
  /** The speed of this run in this phase; 0 while unknown. */
  readonly rowsPerSecond: number
}

/** Counts the rows of a phase, including those of an earlier run, and reports them at most ten times a second. */
export class Reach {
  readonly #phase: 'copying' | 'verifying'
  readonly #onNews: (news: CopyNews) => void
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
      onNews,
    }: { readonly total: number; readonly rows: number; readonly onNews: (news: CopyNews) => void },
  ) {
    this.#phase = phase
    this.#total = total
    this.#rows = rows
    this.#onNews = onNews
  }

  add(table: string, rows: number): void {
    this.#rows += rows
    this.#fresh += rows
    const now = performance.now()
    if (now - this.#reportedAt < 100 && this.#rows < this.#total) return
    this.#reportedAt = now
    const seconds = (now - this.#startedAt) / 1_000
    this.#onNews({
      phase: this.#phase,
      table,
      rows: this.#rows,
      // Rows that were added meanwhile are not in the total.
      total: Math.max(this.#total, this.#rows),
      rowsPerSecond: seconds > 0.05 ? Math.round(this.#fresh / seconds) : 0,
    })
  }
}
