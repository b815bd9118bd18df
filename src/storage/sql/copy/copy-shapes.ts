import type { Cell, CopyColumn, CopyNumbers, CopyRow, CopyTable } from '../../copy-tables.ts'
import { hashClusterKey } from '../cluster-state.ts'
import { nameWaitQueue } from '../locks/wait-queue-record.ts'

/**
 * How an engine stores the rows of one table of a copy. By default it is a table with the same name and the same column
 * names. `@name` in SQL is a table of the engine.
 */
export interface CopyShape {
  /** The FROM clause if it is not only the table: a join, with the table as `t`. */
  readonly from?: string
  readonly where?: string
  /** The SQL expression that reads a column. */
  readonly read?: Readonly<Record<string, string>>
  /** The engine's name of a column. Null: the engine has no such column. */
  readonly names?: Readonly<Record<string, string | null>>
  /** Additional columns to write. */
  readonly more?: Readonly<Record<string, (cell: CellOf, numbers: CopyNumbers) => Cell>>
  /** An additional column whose value SQL looks up by other columns of the row. */
  readonly found?: { readonly column: string; readonly sql: string; readonly by: readonly string[] }
  /** Rows of other tables to write with a row. An existing row stays. */
  readonly also?: readonly AlsoWritten[]
}

/** Reads a column of the current row. */
export type CellOf = (column: string) => Cell

export interface AlsoWritten {
  readonly table: string
  readonly columns: readonly string[]
  readonly row: (cell: CellOf) => CopyRow | null
}

export type CopyShapes = Readonly<Record<string, CopyShape>>

/** The engine's columns to write, the SQL of each value, and a function that returns the values of a row. */
export interface WrittenShape {
  readonly columns: readonly string[]
  readonly places: readonly string[]
  valuesOf(row: CopyRow, numbers: CopyNumbers): readonly Cell[]
  readonly also: readonly AlsoWritten[]
  cellsOf(row: CopyRow): CellOf
}

export function writtenShape(table: CopyTable, shape: CopyShape = {}): WrittenShape {
  const { names = {}, more = {}, found, also = [] } = shape
  const indexes = new Map(table.columns.map(({ name }, index) => [name, index]))
  const cellsOf = (row: CopyRow): CellOf => {
    return (column) => row[indexes.get(column)!] ?? null
  }
  const own = table.columns.flatMap(({ name }, index) =>
    names[name] === null ? [] : [{ column: names[name] ?? name, index }],
  )
  const further = Object.entries(more)
  const columns = [...own.map(({ column }) => column), ...further.map(([column]) => column)]
  const isPlain = columns.length === table.columns.length && further.length === 0 && !found
  return {
    columns: found ? [...columns, found.column] : columns,
    places: [...columns.map(() => '?'), ...(found ? [found.sql] : [])],
    also,
    cellsOf,
    valuesOf(row, numbers) {
      if (isPlain) return row
      const cell = cellsOf(row)
      const values: Cell[] = own.map(({ index }) => row[index]!)
      for (const [, value] of further) values.push(value(cell, numbers))
      for (const column of found?.by ?? []) values.push(cell(column))
      return values
    },
  }
}

/** How to read rows: the columns as SQL in order, the columns of the key, and their indexes. */
export interface ReadShape {
  readonly columns: readonly string[]
  readonly key: readonly { readonly sql: string; readonly isWhole: boolean }[]
  readonly from: string
  readonly where: string
}

/** `truth` converts a condition to a number in the engine's SQL. */
export function readShape(
  table: CopyTable,
  shape: CopyShape = {},
  truth: (sql: string) => string = (sql) => sql,
): ReadShape {
  const sqlOf = ({ name, type }: CopyColumn) => {
    const sql = shape.read?.[name] ?? `t.${shape.names?.[name] ?? name}`
    return type === 'truth' ? truth(sql) : sql
  }
  const byName = new Map(table.columns.map((column) => [column.name, column]))
  return {
    columns: table.columns.map(sqlOf),
    key: table.key.map((name) => ({
      sql: sqlOf(byName.get(name)!),
      isWhole: byName.get(name)!.type === 'whole',
    })),
    from: shape.from ?? `@${table.name} t`,
    where: shape.where ?? 'TRUE',
  }
}

export const leaseNoCell = (_: CellOf, { leaseNo }: CopyNumbers): Cell => String(leaseNo)

/** The permanent records of servers. The copy leaves out which servers and nodes exist. */
const durableRows = `t.doc IS NOT NULL AND t.kind IN ('pool', 'cordon', 'drain')`

/** The shapes that all engines share. */
export const sharedShapes: CopyShapes = {
  queue_control: { where: '(t.paused_at IS NOT NULL OR t.limits IS NOT NULL)' },
  fleet_row: { where: durableRows, more: { key_hash: (cell) => hashClusterKey(cell('row_key')!) } },
}

const waitQueue: CopyShape = {
  names: { is_called: null },
  read: {
    token: 'CASE WHEN t.holder_node IS NOT NULL THEN t.token END',
    is_called: '(t.take_up_by IS NOT NULL)',
  },
  more: {
    grant_from: () => '0',
    due_at: () => '0',
    lease_ends_at: (cell) => (cell('holder_node') === null ? null : '0'),
    take_up_by: (cell) => (cell('is_called') === '1' ? '0' : null),
  },
}
const deadline: NonNullable<CopyShape['more']> = {
  lease_ends_at: () => '0',
  deadline_at: (cell) => (cell('has_deadline') === '1' ? '0' : null),
}
const hasDeadline = '(t.deadline_at IS NOT NULL)'
const queueNames = { namespace: 'l.namespace', operation: 'l.operation', resource: 'l.resource' }

const queueKey = (cell: CellOf): Cell =>
  nameWaitQueue(cell('namespace')!, { operation: cell('operation')!, resource: cell('resource')! }).queueKey

/** Wait queues of locks on Postgres and MariaDB: rows refer to a queue by its key. */
export const queuesByKey: CopyShapes = {
  lock_queue: { ...waitQueue, more: { queue_key: queueKey, ...waitQueue.more } },
  lock_waiter: {
    from: '@lock_waiter t JOIN @lock_queue l ON l.queue_key = t.queue_key',
    read: { ...queueNames, has_deadline: hasDeadline },
    names: { operation: null, resource: null, has_deadline: null },
    more: { queue_key: queueKey, ...deadline, due_at: () => '0' },
  },
  lock_outcome: {
    from: `@lock_outcome t JOIN @lock_queue l ON l.queue_key = t.queue_key
      LEFT JOIN @lock_result r ON r.queue_key = t.queue_key AND r.revision = t.revision`,
    read: { ...queueNames, value: 'r.value' },
    names: { operation: null, resource: null, value: null },
    more: { queue_key: queueKey, kept_until: () => '0' },
    // Outcomes for several waiters share a result.
    also: [
      {
        table: 'lock_result',
        columns: ['queue_key', 'revision', 'namespace', 'value', 'kept_until'],
        row: (cell) =>
          cell('value') === null
            ? null
            : [queueKey(cell), cell('revision'), cell('namespace'), cell('value'), '0'],
      },
    ],
  },
}

const queueId = {
  column: 'queue_id',
  sql: '(SELECT queue_id FROM lock_queue WHERE namespace = ? AND operation = ? AND resource = ?)',
  by: ['namespace', 'operation', 'resource'],
}
const noNames = { namespace: null, operation: null, resource: null }

/** Wait queues of locks on SQLite: rows refer to a queue by its number. */
export const queuesByNumber: CopyShapes = {
  lock_queue: { ...waitQueue, more: { ...waitQueue.more, outcome_count: () => '0' } },
  lock_waiter: {
    from: '@lock_waiter t JOIN @lock_queue l ON l.queue_id = t.queue_id',
    read: { ...queueNames, has_deadline: hasDeadline },
    names: { ...noNames, has_deadline: null },
    more: deadline,
    found: queueId,
  },
  lock_outcome: {
    from: '@lock_outcome t JOIN @lock_queue l ON l.queue_id = t.queue_id',
    read: queueNames,
    names: noNames,
    more: { kept_until: () => '0' },
    found: queueId,
  },
}
