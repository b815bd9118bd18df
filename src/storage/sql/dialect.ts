import type { JobLayout } from './job-layout.ts'
import type { ScalarType, Slot } from './statement.ts'

/**
 * The words in which the SQL engines differ. A store's text uses the upper part; the compiler of statements uses the
 * lower part. Everything here is asked when a statement is compiled, never when it is run.
 */
export interface Dialect {
  /** The store's clock in epoch milliseconds, one instant for the statement. Indexes can be searched by it. */
  readonly now: string
  /** The clock that moves on while the statement waits for a lock: for leases that may end meanwhile. Not for indexes. */
  readonly movingNow: string
  /** The store's clock in microseconds, as `now`. On SQLite it rises with each use. */
  readonly nowMicros: string
  /** After a SELECT: locks its rows until the transaction ends. SQLite has one writer and needs no locks. */
  readonly forUpdate: string
  /** The same, leaving out the rows that others have locked. */
  readonly skipLocked: string
  /**
   * A statement that locks the row with this key until the transaction ends, shared or alone. A transaction that wants it alone
   * waits for those that share it, but not for those that come later. On MariaDB the row must be there.
   */
  lockRow(table: string, key: string, value: string, mode: 'shared' | 'alone'): string
  /** The same for a key whose row may not be there. MariaDB inserts one, with these `columns` from `source`. */
  lockKey(parts: Omit<UpsertParts, 'set'> & { readonly value: string }): string
  /** Locks those of a list of keys that no other transaction has, and answers them. On MariaDB their rows must be there. */
  tryLockKeys(table: string, key: string, keys: string): string
  /** A join whose left side is read first: `FROM :rows ${d.thenJoin('@table', 't', 't.id = v.id')}`. */
  thenJoin(table: string, alias: string, on: string): string
  /** FROM and WHERE of the rows that a list of keys names, each looked up by its key. More conditions may follow with AND. */
  byKeys(parts: ByKeysParts): string
  /** A hint behind a table in FROM, where an engine would choose another index. `PRIMARY` is that of the primary key. */
  byIndex(name: string): string
  /** A column or value as text, or as a whole number. */
  text(expression: string): string
  integer(expression: string): string
  /** A text column that any session reads unharmed, whatever its character set: text, or a Buffer (`decodeBytes`). */
  bytes(column: string): string
  /** Whether a text has another in it. */
  contains(expression: string, part: string): string
  /** Whether columns, compared in this order, come after values. An index on them is searched by it. */
  isAfter(...pairs: readonly (readonly [column: string, value: string])[]): string
  /** The same where the last column is a long text, of which an index has the first 191 characters. */
  isAfterLong(...pairs: readonly (readonly [column: string, value: string])[]): string
  /** What to order by in the order of such a column. */
  orderByLong(column: string): string
  /** An object in JSON of all rows: an aggregate. */
  jsonObject(key: string, value: string): string
  /** A column's name that is a reserved word. */
  quote(name: string): string
  greatest(...expressions: readonly string[]): string
  /** Ends an INSERT: a row whose key is there stays as it is. `key` has the columns of the key. */
  keepExisting(key: string): string
  /**
   * A whole INSERT … with its `source` (VALUES or SELECT) that changes the row whose key is there. In `set`, `new.x` is the
   * value that was to be inserted and `old.x` the one that is there; an expression must not read an `old` column that the
   * same `set` changes, but its own.
   */
  upsert(parts: UpsertParts): string
  /**
   * The same where the row that is there is changed only `when` a condition on it holds, as a whole or not at all. Append
   * RETURNING: with the call's own `mark`, the row is as the call wrote it. SQLite gives no row that it left as it was; the
   * others give all. The condition must not read a clock. In `set`, an expression may read `old` columns that come after it.
   */
  upsertWhen(parts: UpsertParts & { readonly mark: string; readonly when: string }): string
  /** Deletes up to `limit` rows in an order, leaving out those that others have locked. */
  deleteFirst(parts: DeleteFirstParts): string
  /** Changes or deletes the rows `t` of a table by the rows `v` of a batch. */
  updateByRows(table: string, set: Readonly<Record<string, string>>, where: string): string
  deleteByRows(table: string, where: string): string
  /** The first `limit` rows of several SELECTs together. Each can be read in that order. */
  firstOfAll(selects: readonly string[], orderBy: string, limit: string): string
  /** Where this engine keeps jobs. */
  readonly jobs: JobLayout

  /** A table, qualified. */
  table(name: string): string
  /** The placeholder of the value with that number, counted from 1. */
  placeholder(number: number, type: string): string
  /** Whether placeholders are positional, so that a value used twice is bound twice. */
  readonly isPositional: boolean
  /** What follows a column to ask whether it is in a list. */
  inList(placeholder: string): string
  /** What follows LIMIT. */
  limit(placeholder: string): string
  /** The FROM item `v` of a batch. */
  batch(
    name: string,
    columns: readonly { readonly name: string; readonly type: ScalarType }[],
    place: (slot: Slot) => number,
  ): string
  /** Whether a statement with a batch is run once for each of its rows. */
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
  /** The column that the keys are of. */
  readonly key: string
  /** The list: `:ids`. */
  readonly keys: string
  /** Joins that follow. */
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

/** What a column of `bytes` gave. */
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
