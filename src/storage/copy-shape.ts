import type { Cell, CopyColumn, CopyNumbers, CopyRow, CopyTable } from './copy-tables.ts'
import { hashFleetKey } from './sql/fleet-key.ts'
import { nameWaitQueue } from './sql/locks/wait-queue-key.ts'

/**
 * How an engine keeps the rows of one table of a copy. What is not said is as the table itself has it: a table of that
 * name, with columns of those names.
 */
export interface CopyShape {
  /** The engine's table. */
  readonly table?: string
  /** What rows are read from, if not from that table: a join, with the table as `t`. */
  readonly from?: string
  readonly where?: string
  /** What a column is read as, in SQL. */
  readonly read?: Readonly<Record<string, string>>
  /** The engine's name of a column; null: it has none. */
  readonly names?: Readonly<Record<string, string | null>>
  /** Further columns that are written. */
  readonly more?: Readonly<Record<string, (cell: CellOf, numbers: CopyNumbers) => Cell>>
  /** Rows of other tables that go with a row; one that is there already stays. */
  readonly also?: readonly AlsoWritten[]
}

/** The value of a column of the row in hand. */
export type CellOf = (column: string) => Cell

export interface AlsoWritten {
  readonly table: string
  readonly columns: readonly CopyColumn[]
  readonly row: (cell: CellOf) => CopyRow | null
}

export type CopyShapes = Readonly<Record<string, CopyShape>>

/** The columns that are written, by the engine's names, and the values of a row for them. */
export interface WrittenShape {
  readonly table: string
  readonly columns: readonly string[]
  valuesOf(row: CopyRow, numbers: CopyNumbers): Cell[]
  readonly also: readonly AlsoWritten[]
  cellsOf(row: CopyRow): CellOf
}

export function writtenShape(table: CopyTable, shape: CopyShape = {}): WrittenShape {
  const places = new Map(table.columns.map(({ name }, index) => [name, index]))
  const cellsOf = (row: CopyRow): CellOf => {
    return (column) => row[places.get(column)!] ?? null
  }
  const own = table.columns.flatMap(({ name }, index) => {
    const named = shape.names?.[name]
    return named === null ? [] : [{ column: named ?? name, index }]
  })
  const more = Object.entries(shape.more ?? {})
  const isPlain = own.length === table.columns.length && more.length === 0
  return {
    table: shape.table ?? table.name,
    columns: [...own.map(({ column }) => column), ...more.map(([column]) => column)],
    also: shape.also ?? [],
    cellsOf,
    valuesOf(row, numbers) {
      if (isPlain) return row as Cell[]
      const values: Cell[] = own.map(({ index }) => row[index]!)
      if (more.length === 0) return values
      const cell = cellsOf(row)
      for (const [, value] of more) values.push(value(cell, numbers))
      return values
    },
  }
}

/** What rows are read by: the columns as SQL, in order, those of the key among them, and where they are. */
export interface ReadShape {
  readonly columns: readonly string[]
  readonly key: readonly { readonly sql: string; readonly isWhole: boolean }[]
  readonly from: string
  readonly where: string
}

export function readShape(
  table: CopyTable,
  shape: CopyShape = {},
  /** The engine's way to name one of its tables, and to make a number of truth. */
  {
    place = (name) => name,
    truth = (sql) => sql,
  }: { readonly place?: (name: string) => string; readonly truth?: (sql: string) => string } = {},
): ReadShape {
  const sqlOf = ({ name, type }: CopyColumn) => {
    const given = shape.read?.[name]
    const sql = given ?? `t.${shape.names?.[name] ?? name}`
    return type === 'truth' ? truth(sql) : sql
  }
  const byName = new Map(table.columns.map((column) => [column.name, column]))
  return {
    columns: table.columns.map(sqlOf),
    key: table.key.map((name) => ({
      sql: sqlOf(byName.get(name)!),
      isWhole: byName.get(name)!.type === 'whole',
    })),
    from: shape.from ?? `${place(shape.table ?? table.name)} t`,
    where: shape.where ?? 'TRUE',
  }
}

/** Where a row's key stands in it. */
export function keyOf(table: CopyTable): (row: CopyRow) => readonly string[] {
  const places = table.key.map((key) => table.columns.findIndex(({ name }) => name === key))
  return (row) => places.map((place) => row[place]!)
}

/** The columns that are written nowhere else: what engines with lines by hash share. */
export const queueKeyCell = (cell: CellOf): Cell =>
  nameWaitQueue(cell('namespace')!, { operation: cell('operation')!, resource: cell('resource')! }).queueKey

export const fleetKeyCell = (cell: CellOf): Cell => hashFleetKey(cell('row_key')!)

/** A row of `lock_result`, which ends that were told to many share. */
export const queueResult: AlsoWritten = {
  table: 'lock_result',
  columns: [
    { name: 'queue_key', type: 'text', isCompared: false },
    { name: 'revision', type: 'whole', isCompared: false },
    { name: 'namespace', type: 'text', isCompared: false },
    { name: 'value', type: 'text', isCompared: false },
    { name: 'kept_until', type: 'whole', isCompared: false },
  ],
  row: (cell) =>
    cell('value') === null
      ? null
      : [queueKeyCell(cell), cell('revision'), cell('namespace'), cell('value'), '0'],
}
