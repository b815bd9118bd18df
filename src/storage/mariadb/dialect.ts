import { assignments, type Dialect } from '../sql/dialect.ts'
import { movingMs, nowMs } from './connection/clock.ts'

/** The tables are qualified: a caller's connection may have another default database. */
export function createMariadbDialect(database: string): Dialect {
  const quoted = `\`${database.replaceAll('`', '``')}\``
  return {
    now: nowMs,
    movingNow: movingMs,
    forUpdate: 'FOR UPDATE',
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    thenJoin: 'STRAIGHT_JOIN',
    byIndex: (name) => `FORCE INDEX (${name})`,
    text: (expression) => `CAST(${expression} AS CHAR)`,
    integer: (expression) => `CAST(${expression} AS SIGNED)`,
    quote: (name) => `\`${name}\``,
    greatest: (...expressions) => `GREATEST(${expressions.join(', ')})`,
    // Not IGNORE, which would also cut short what does not fit.
    keepExisting: (key) => {
      const [column] = key.split(',')
      return `ON DUPLICATE KEY UPDATE ${column} = VALUES(${column})`
    },
    upsert: ({ into, columns, source, set }) =>
      `INSERT INTO ${into} (${columns}) ${source} ON DUPLICATE KEY UPDATE ${assignments(set)
        .replaceAll(/\bnew\.(`?\w+`?)/g, 'VALUES($1)')
        .replaceAll(/\bold\./g, `${into}.`)}`,
    deleteFirst: ({ from, key, where, orderBy, limit }) => {
      const isSame = key.split(',').map((column) => `t.${column.trim()} = first.${column.trim()}`)
      return `DELETE t FROM (
          SELECT ${key} FROM ${from} WHERE ${where} ORDER BY ${orderBy} LIMIT ${limit} FOR UPDATE SKIP LOCKED) first
        STRAIGHT_JOIN ${from} t ON ${isSame.join(' AND ')}`
    },
    updateByRows: (table, set, where) =>
      `UPDATE :rows STRAIGHT_JOIN ${table} t ON ${where} SET ${assignments(set, 't.')}`,
    deleteByRows: (table, where) => `DELETE t FROM :rows STRAIGHT_JOIN ${table} t ON ${where}`,

    table: (name) => `${quoted}.${name}`,
    placeholder: () => '?',
    isPositional: true,
    inList: (placeholder) => `IN (${placeholder})`,
    limit: (placeholder) => placeholder,
    batch(name, columns, place) {
      const names = columns.map((column) => column.name)
      place({ from: 'params', name, type: 'rows', columns: names })
      return `(WITH given (${names.join(', ')}) AS (VALUES ?) SELECT * FROM given) v`
    },
    runsBatchesByRow: false,
  }
}
