import { assignments, type Dialect } from '../sql/dialect.ts'
import { movingMs, nowMicros, nowMs } from './connection/clock.ts'
import { createJobLayout } from './jobs/layout.ts'

/** Tables are qualified, because a caller's connection may have another default database. */
export function createMariadbDialect(database: string): Dialect {
  const quoted = `\`${database.replaceAll('`', '``')}\``
  const words: Omit<Dialect, 'jobs'> = {
    now: nowMs,
    movingNow: movingMs,
    nowMicros,
    forUpdate: 'FOR UPDATE',
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    lockRow: (table, key, value, mode) =>
      `SELECT 1 FROM ${table} WHERE ${key} = ${value} ${mode === 'shared' ? 'LOCK IN SHARE MODE' : 'FOR UPDATE'}`,
    // The upsert locks the row exclusively at once. INSERT IGNORE would lock it shared first, and two transactions with
    // a shared lock deadlock.
    lockKey: ({ into, columns, source, key }) =>
      `INSERT INTO ${into} (${columns}) ${source} ON DUPLICATE KEY UPDATE ${key} = ${into}.${key}`,
    tryLockKeys: (table, key, keys) =>
      `SELECT ${key} FROM ${table} WHERE ${key} IN (${keys}) FOR UPDATE SKIP LOCKED`,
    thenJoin: (table, alias, on) => `STRAIGHT_JOIN ${table} ${alias} ON ${on}`,
    byKeys: ({ from, alias, where, key, keys, join = '' }) =>
      `FROM ${from} ${alias} FORCE INDEX (PRIMARY) ${join} WHERE ${where} AND ${key} IN (${keys})`,
    byIndex: (name) => `FORCE INDEX (${name})`,
    text: (expression) => `CAST(${expression} AS CHAR)`,
    integer: (expression) => `CAST(${expression} AS SIGNED)`,
    bytes: (column) => `CAST(${column} AS BINARY)`,
    contains: (expression, part) => `LOCATE(${part}, ${expression}) > 0`,
    isAfter,
    isAfterLong: isAfter,
    orderByLong: (column) => column,
    jsonObject: (key, value) => `JSON_OBJECTAGG(${key}, ${value})`,
    quote: (name) => `\`${name}\``,
    greatest: (...expressions) => `GREATEST(${expressions.join(', ')})`,
    // Not IGNORE, which would also truncate values that do not fit.
    keepExisting: (key) => {
      const [column] = key.split(',')
      return `ON DUPLICATE KEY UPDATE ${column} = VALUES(${column})`
    },
    keepAny: 'ON DUPLICATE KEY UPDATE namespace = VALUES(namespace)',
    upsert: ({ into, columns, source, set }) =>
      `INSERT INTO ${into} (${columns}) ${source} ON DUPLICATE KEY UPDATE ${inUpdate(assignments(set), into)}`,
    // Assignments run in order: the first one evaluates the condition, all others see whose mark the row has.
    upsertWhen: ({ into, columns, source, set, mark, when }) => {
      const changes = Object.entries(set).map(
        ([column, expression]) => `${column} = IF(old.${mark} = new.${mark}, ${expression}, old.${column})`,
      )
      const marking = `${mark} = IF(${when}, new.${mark}, old.${mark})`
      return `INSERT INTO ${into} (${columns}) ${source}
        ON DUPLICATE KEY UPDATE ${inUpdate([marking, ...changes].join(', '), into)}`
    },
    deleteFirst: ({ from, key, where, orderBy, limit }) => {
      const isSame = key.split(',').map((column) => `t.${column.trim()} = first.${column.trim()}`)
      return `DELETE t FROM (
          SELECT ${key} FROM ${from} WHERE ${where} ORDER BY ${orderBy} LIMIT ${limit} FOR UPDATE SKIP LOCKED) first
        STRAIGHT_JOIN ${from} t ON ${isSame.join(' AND ')}`
    },
    updateByRows: (table, set, where) =>
      `UPDATE :rows STRAIGHT_JOIN ${table} t ON ${where} SET ${assignments(set, 't.')}`,
    deleteByRows: (table, where) => `DELETE t FROM :rows STRAIGHT_JOIN ${table} t ON ${where}`,
    firstOfAll: (selects, orderBy, limit) => {
      const firsts = selects.map((select) => `(${select} ORDER BY ${orderBy} LIMIT ${limit})`)
      return `SELECT * FROM (${firsts.join(' UNION ALL ')}) found ORDER BY ${orderBy} LIMIT ${limit}`
    },

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
  return { ...words, jobs: createJobLayout(words) }
}

/** Replaces `new.x` and `old.x` with MariaDB's syntax. */
function inUpdate(text: string, into: string): string {
  return text.replaceAll(/\bnew\.(`?\w+`?)/g, 'VALUES($1)').replaceAll(/\bold\./g, `${into}.`)
}

/** MariaDB searches no index by a row comparison, so the first condition gives the start of the range. */
function isAfter(...pairs: readonly (readonly [column: string, value: string])[]): string {
  const [[first, from]] = pairs as [readonly [string, string]]
  const parts = pairs.map(([column, value], nr) => {
    const same = pairs.slice(0, nr).map(([before, given]) => `${before} = ${given} AND `)
    return `(${same.join('')}${column} > ${value})`
  })
  return `${first} >= ${from} AND (${parts.join(' OR ')})`
}
