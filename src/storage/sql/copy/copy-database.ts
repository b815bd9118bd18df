import type { Cell, CopyRow } from '../../copy-tables.ts'
import type { Dialect } from '../dialect.ts'
import type { CopyShapes } from './copy-shapes.ts'

/**
 * A connection of a copy: the functions that copy.ts needs from an engine. In all texts `@name` is a table and `?` a
 * value.
 */
export interface CopyDatabase {
  readonly dialect: CopyDialect
  /** Runs a SELECT and returns its rows. Whole numbers come as text or as numbers. */
  rows<Row extends object>(sql: string, values?: readonly CopyValue[]): Promise<readonly Row[]>
  /** Runs a statement and returns the number of changed rows. */
  run(sql: string, values?: readonly CopyValue[]): Promise<number>
  transact(work: () => Promise<void>): Promise<void>
  insert(insert: CopyInsert): Promise<void>
  /** Reads the rows of a SELECT as texts, in pages. `behind` names no table. */
  pages(select: string, behind: string, pageRows: number): AsyncIterable<readonly CopyRow[]>
  hasTable(name: string): Promise<boolean>
  /** The clocks of leases in epoch milliseconds: `lockNow` for locks, `now` for everything else. */
  clocks(): Promise<{ readonly now: number; readonly lockNow: number }>
  /** Quotes a text as an SQL literal. */
  quote(text: string): string
  /** Opens a snapshot of the same database on another connection. */
  openSnapshot(): Promise<CopyDatabase>
  close(): Promise<void>
}

export type CopyValue = string | number | null

export interface CopyInsert {
  readonly table: string
  readonly columns: readonly string[]
  /** The SQL of each value; by default `?`. */
  readonly places?: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** Whether an existing row with the same key stays unchanged. @default false */
  readonly keepsExisting?: boolean
}

/** The parts of SQL in which the engines differ. */
export interface CopyDialect extends Pick<Dialect, 'keepExisting' | 'greatest' | 'isAfter'> {
  readonly shapes: CopyShapes
  /** The name of the first column of `signalbox_meta`. */
  readonly metaKey: string
  /** The current time as SQL, for `signalbox_migration.applied_at`. */
  readonly appliedAt: string
  /** Follows the columns of a new table. */
  readonly tableOptions: string
  /** Converts a condition to 0 or 1. */
  truth(sql: string): string
  /** Whether `job_cancel` may hold requests for jobs that do not run. */
  readonly cancelsOutliveLeases: boolean
  /** Statements that restart the leases of lock holders, and give waiters time to reconnect. */
  readonly restartLocks: readonly string[]
}

/** The `restartLocks` of engines that time locks by the database's clock. MariaDB assigns in this order. */
export function restartLocksAt(now: string): readonly string[] {
  return [
    `UPDATE @lock_queue SET lease_ends_at = ${now} + holder_ttl_ms,
       due_at = ${now} + CASE WHEN holder_node IS NULL THEN 0 WHEN take_up_by IS NULL THEN holder_ttl_ms ELSE 10000 END,
       take_up_by = CASE WHEN take_up_by IS NOT NULL THEN ${now} + 10000 END`,
    `UPDATE @lock_waiter SET lease_ends_at = ${now} + 30000, due_at = ${now} + 30000,
       deadline_at = CASE WHEN deadline_at IS NOT NULL THEN ${now} + 30000 END`,
    `UPDATE @lock_outcome SET kept_until = ${now} + 60000`,
    `UPDATE @lock_result SET kept_until = ${now} + 60000`,
  ]
}

/** Collects rows into pages of up to `pageRows` rows. A page is also full after `pageChars` characters. */
export class PageBuilder {
  readonly #pageRows: number
  #rows: CopyRow[] = []
  #chars = 0

  constructor(pageRows: number) {
    this.#pageRows = pageRows
  }

  /** Returns a page if the row filled it. */
  add(row: CopyRow): readonly CopyRow[] | undefined {
    this.#rows.push(row)
    this.#chars += countChars(row)
    if (this.#rows.length < this.#pageRows && this.#chars < pageChars) return undefined
    return this.take()
  }

  take(): readonly CopyRow[] {
    const page = this.#rows
    this.#rows = []
    this.#chars = 0
    return page
  }
}

export const pageChars = 4_000_000

export function countChars(row: CopyRow): number {
  let chars = 0
  for (const cell of row) chars += cell?.length ?? 0
  return chars
}
