import { assignments, type Dialect, rowIsAfter } from '../sql/dialect.ts'
import { createJobLayout } from './jobs/layout.ts'

const words: Omit<Dialect, 'jobs'> = {
  // A bound value: all statements of a transaction share its time, and a test can set it.
  now: ':now',
  movingNow: ':now',
  nowMicros: ':micros',
  forUpdate: '',
  skipLocked: '',
  lockRow: () => 'SELECT 1',
  lockKey: () => 'SELECT 1',
  tryLockKeys: (_table, key, keys) => `SELECT value AS ${key} FROM json_each(${keys})`,
  thenJoin: (table, alias, on) => `CROSS JOIN ${table} ${alias} ON ${on}`,
  byKeys: ({ from, alias, where, key, keys, join = '' }) =>
    `FROM ${from} ${alias} ${join} WHERE ${where} AND ${key} IN (${keys})`,
  byIndex: (name) => (name === 'PRIMARY' ? '' : `INDEXED BY ${name}`),
  text: (expression) => `CAST(${expression} AS TEXT)`,
  integer: (expression) => `CAST(${expression} AS INTEGER)`,
  bytes: (column) => column,
  contains: (expression, part) => `instr(${expression}, ${part}) > 0`,
  isAfter: rowIsAfter,
  isAfterLong: rowIsAfter,
  orderByLong: (column) => column,
  jsonObject: (key, value) => `json_group_object(${key}, ${value})`,
  quote: (name) => `"${name}"`,
  greatest: (...expressions) => `max(${expressions.join(', ')})`,
  keepExisting: (key) => `ON CONFLICT (${key}) DO NOTHING`,
  keepAny: 'ON CONFLICT DO NOTHING',
  upsert: ({ into, columns, source, key, set }) =>
    `INSERT INTO ${into} AS old (${columns}) ${source}
     ON CONFLICT (${key}) DO UPDATE SET ${assignments(set).replaceAll(/\bnew\./g, 'excluded.')}`,
  // An unchanged row is not written, so a transaction that changes nothing needs no sync.
  upsertWhen: ({ into, columns, source, key, set, mark, when }) => {
    const changes = assignments({ [mark]: `new.${mark}`, ...set })
    return `INSERT INTO ${into} AS old (${columns}) ${source}
     ON CONFLICT (${key}) DO UPDATE SET ${`${changes} WHERE ${when}`.replaceAll(/\bnew\./g, 'excluded.')}`
  },
  deleteFirst: ({ from, key, where, orderBy, limit }) =>
    `DELETE FROM ${from} WHERE (${key}) IN (
       SELECT ${key} FROM ${from} WHERE ${where} ORDER BY ${orderBy} LIMIT ${limit})`,
  updateByRows: (table, set, where) => `UPDATE ${table} AS t SET ${assignments(set)} WHERE ${where}`,
  deleteByRows: (table, where) => `DELETE FROM ${table} AS t WHERE ${where}`,
  // SQLite merges the SELECTs in that order, and reads no more rows than it returns.
  firstOfAll: (selects, orderBy, limit) =>
    `${selects.join(' UNION ALL ')} ORDER BY ${orderBy} LIMIT ${limit}`,

  table: (name) => name,
  placeholder: (number) => `?${number}`,
  isPositional: false,
  inList: (placeholder) => `IN (SELECT value FROM json_each(${placeholder}))`,
  // SQLite plans by the value of a bare LIMIT, so it would plan again on each call, which takes longer than most
  // statements.
  limit: (placeholder) => `${placeholder} + 0`,
  // The columns of a batch are bound where they are used.
  batch: () => '(SELECT 1) v',
  runsBatchesByRow: true,
}

/** SQLite has one writer, so the dialect locks nothing. It runs a batch row by row, each with its key. */
export const sqliteDialect: Dialect = { ...words, jobs: createJobLayout(words) }
