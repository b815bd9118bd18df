import type { JobLayout } from './job-layout.ts'
import type { ScalarType, Slot } from './statement.ts'

/**
 * The parts of SQL in which the engines differ. The text of a store's statement uses the upper part; the statement
 * compiler uses the lower part. Each member is used when a statement is compiled, never when it runs.
 */
export interface Dialect {
  /** The store's clock in epoch milliseconds: the same instant in the whole statement. Index searches can use it. */
  readonly now: string
  /**
   * A clock that advances while the statement waits for a lock, for leases that may end meanwhile. No index search can
   * use it.
   */
  readonly movingNow: string
  /** The store's clock in microseconds, constant like `now`. On SQLite it rises with each use. */
  readonly nowMicros: string
  /** Follows a SELECT: locks its rows until the transaction ends. SQLite has one writer and needs no locks. */
  readonly forUpdate: string
  /** The same, but skips rows that another transaction locked. */
  readonly skipLocked: string
  /**
   * A statement that locks the row with this key until the transaction ends, shared or exclusively. A transaction that
   * wants the row alone waits for the current sharers, but not for later ones. On MariaDB the row must exist.
   */
  lockRow(table: string, key: string, value: string, mode: 'shared' | 'alone'): string
  /** The same for a key whose row may be missing. MariaDB inserts a row, with these `columns` from `source`. */
  lockKey(parts: Omit<UpsertParts, 'set'> & { readonly value: string }): string
  /**
   * Locks those of a list of keys that no other transaction holds, and returns them. On MariaDB their rows must exist.
   */
  tryLockKeys(table: string, key: string, keys: string): string
  /** A join that reads its left side first: `FROM :rows ${d.thenJoin('@table', 't', 't.id = v.id')}`. */
  thenJoin(table: string, alias: string, on: string): string
  /** FROM and WHERE that look up each row of a list of keys by its key. AND may add conditions. */
  byKeys(parts: ByKeysParts): string
  /** A hint after a table in FROM, where an engine would choose a worse index. `PRIMARY` is the primary key. */
  byIndex(name: string): string
  /** Converts a column or value to text, or to a whole number. */
  text(expression: string): string
  integer(expression: string): string
  /** Reads a text column unharmed in a session of any character set. Gives text or a Buffer: see `decodeBytes`. */
  bytes(column: string): string
  /** Whether a text contains another. */
  contains(expression: string, part: string): string
  /** Whether columns, compared in this order, come after values. An index on the columns can be searched with it. */
  isAfter(...pairs: readonly (readonly [column: string, value: string])[]): string
  /** The same where the last column is a long text. Its index holds only the first 191 characters. */
  isAfterLong(...pairs: readonly (readonly [column: string, value: string])[]): string
  /** The ORDER BY expression for such a long column. */
  orderByLong(column: string): string
  /** An aggregate: one JSON object of all rows. */
  jsonObject(key: string, value: string): string
  /** Quotes a column name that is a reserved word. */
  quote(name: string): string
  greatest(...expressions: readonly string[]): string
  /** Ends an INSERT: an existing row with the same key stays unchanged. `key` lists the columns of the key. */
  keepExisting(key: string): string
  /** The same for a conflict with any unique index. With RETURNING, MariaDB returns the existing row instead. */
  readonly keepAny: string
  /**
   * A whole INSERT … with its `source` (VALUES or SELECT) that changes an existing row with the same key. In `set`,
   * `new.x` is the value to insert and `old.x` the existing value. An expression may read the `old` value of its own
   * column, but of no other column that the same `set` changes.
   */
  upsert(parts: UpsertParts): string
  /**
   * The same, but it changes an existing row only `when` a condition on it holds: completely or not at all. Append
   * RETURNING: a row with the call's own `mark` was written by this call. SQLite does not return a row that it left
   * unchanged; the other engines return all rows. The condition must not read a clock. In `set`, an expression may read
   * `old` columns that come after it.
   */
  upsertWhen(parts: UpsertParts & { readonly mark: string; readonly when: string }): string
  /** Deletes the first `limit` rows in an order, and skips rows that another transaction locked. */
  deleteFirst(parts: DeleteFirstParts): string
  /** Changes or deletes rows `t` of a table, joined to the rows `v` of a batch. */
  updateByRows(table: string, set: Readonly<Record<string, string>>, where: string): string
  deleteByRows(table: string, where: string): string
  /** The first `limit` rows of several SELECTs together. The engine can read each SELECT in that order. */
  firstOfAll(selects: readonly string[], orderBy: string, limit: string): string
  /** The tables and indexes in which this engine keeps jobs. */
  readonly jobs: JobLayout

  /** The qualified name of a table. */
  table(name: string): string
  /** The placeholder of a value by its number. The first value is number 1. */
  placeholder(number: number, type: string): string
  /** Whether placeholders are positional. A value that occurs twice is then bound twice. */
  readonly isPositional: boolean
  /** The condition after a column: the column is in a list. */
  inList(placeholder: string): string
  /** The expression after LIMIT. */
  limit(placeholder: string): string
  /** The FROM item `v` for a batch. */
  batch(
    name: string,
    columns: readonly { readonly name: string; readonly type: ScalarType }[],
    place: (slot: Slot) => number,
  ): string
  /** Whether a statement with a batch runs once for each row. */
  readonly runsBatchesByRow: boolean
}

export interface UpsertParts {
  readonly into: string
  readonly columns: string
  readonly source: string
  readonly key: string
  readonly set: Readonly<Record<string, string>>
}

export interface ByKeysParts {
  readonly from: string
  readonly alias: string
  readonly where: string
  /** The column that holds the keys. */
  readonly key: string
  /** The list of keys: `:ids`. */
  readonly keys: string
  /** Joins to add after the table. */
  readonly join?: string
}

export interface DeleteFirstParts {
  readonly from: string
  /** The columns of the primary key. */
  readonly key: string
  readonly where: string
  readonly orderBy: string
  readonly limit: string
}

/** Decodes a column that was selected with `bytes`. */
export function decodeBytes(value: string | Uint8Array | null): string | null {
  return value === null || typeof value === 'string' ? value : Buffer.from(value).toString()
}

/** `(a, b) > (x, y)` */
export function rowIsAfter(...pairs: readonly (readonly [column: string, value: string])[]): string {
  const [columns, values] = [0, 1].map((at) => pairs.map((pair) => pair[at]).join(', '))
  return `(${columns}) > (${values})`
}

/** `a = x, b = y` */
export function assignments(set: Readonly<Record<string, string>>, prefix = ''): string {
  return Object.entries(set)
    .map(([column, expression]) => `${prefix}${column} = ${expression}`)
    .join(', ')
}
