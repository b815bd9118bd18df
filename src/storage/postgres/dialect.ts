import { escapeLiteral } from 'pg'
import { assignments, type Dialect, rowIsAfter } from '../sql/dialect.ts'
import { nowMs } from './connection/statement.ts'
import { createJobLayout } from './jobs/layout.ts'

const types: Readonly<Record<string, string>> = {
  text: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
}

function typeOf(type: string): string {
  const bare = type.replace('[]', '')
  return bare === type ? types[type]! : `${types[bare]}[]`
}

/**
 * Looks up rows one by one, in the order of the batch. `IS TRUE` keeps Postgres from using an index of the condition;
 * the condition is for a row that another transaction has just changed.
 */
function lookUp(table: string, where: string): string {
  return `(
       SELECT v.*, found.place FROM :rows
       CROSS JOIN LATERAL (SELECT t.ctid AS place FROM ${table} AS t WHERE ${where} OFFSET 0) found) AS v
     WHERE t.ctid = v.place AND (${where}) IS TRUE`
}

/** The SQL of Postgres. Every value has a cast, so that Postgres never guesses a type. `schema` is quoted. */
export function createPostgresDialect(schema: string): Dialect {
  const words: Omit<Dialect, 'jobs'> = {
    // The clock is volatile. As a subquery it is read once, so that Postgres can use it in an index search.
    now: `(SELECT ${nowMs})`,
    movingNow: nowMs,
    nowMicros: '(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)',
    forUpdate: 'FOR UPDATE',
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    // An advisory lock: transactions wait for it in order, and a shared lock writes no row.
    lockRow: (table, _key, value, mode) =>
      `SELECT pg_advisory_xact_lock${mode === 'shared' ? '_shared' : ''}(
         hashtextextended(${escapeLiteral(`${schema} ${table.replace('@', '')} `)} || ${value}, 0))`,
    lockKey: ({ value }) => `SELECT pg_advisory_xact_lock(hashtextextended(${value}, 0))`,
    tryLockKeys: (_table, key, keys) =>
      `SELECT wanted.${key} FROM unnest(${keys}) AS wanted (${key})
       WHERE pg_try_advisory_xact_lock(hashtextextended(wanted.${key}, 0))`,
    // With a plain join or list, a plan from the time when the table was small would read the whole namespace.
    thenJoin: (table, alias, on) =>
      `CROSS JOIN LATERAL (SELECT * FROM ${table} ${alias} WHERE ${on} OFFSET 0) ${alias}`,
    byKeys: ({ from, alias, where, key, keys, join = '' }) =>
      `FROM unnest(${keys}) AS wanted (key)
       CROSS JOIN LATERAL (SELECT * FROM ${from} ${alias} WHERE ${where} AND ${key} = wanted.key OFFSET 0) ${alias}
       ${join} WHERE TRUE`,
    byIndex: () => '',
    text: (expression) => `CAST(${expression} AS text)`,
    integer: (expression) => `CAST(${expression} AS bigint)`,
    bytes: (column) => column,
    contains: (expression, part) => `strpos(${expression}, ${part}) > 0`,
    isAfter: rowIsAfter,
    isAfterLong: (...pairs) => {
      const start = (text: string) => `left(${text}, 191)`
      const [column, value] = pairs.at(-1)!
      const starts = rowIsAfter(...pairs.slice(0, -1), [start(column), start(value)])
      return `${starts.replace('>', '>=')} AND ${rowIsAfter(...pairs)}`
    },
    orderByLong: (column) => `left(${column}, 191), ${column}`,
    jsonObject: (key, value) => `json_object_agg(${key}, ${value})`,
    quote: (name) => `"${name}"`,
    greatest: (...expressions) => `greatest(${expressions.join(', ')})`,
    keepExisting: (key) => `ON CONFLICT (${key}) DO NOTHING`,
    keepAny: 'ON CONFLICT DO NOTHING',
    upsert: ({ into, columns, source, key, set }) =>
      `INSERT INTO ${into} AS old (${columns}) ${source}
       ON CONFLICT (${key}) DO UPDATE SET ${assignments(set).replaceAll(/\bnew\./g, 'excluded.')}`,
    upsertWhen: ({ into, columns, source, key, set, mark, when }) => {
      const changes = Object.entries({ [mark]: `new.${mark}`, ...set }).map(
        ([column, expression]) => `${column} = CASE WHEN ${when} THEN ${expression} ELSE old.${column} END`,
      )
      return `INSERT INTO ${into} AS old (${columns}) ${source}
       ON CONFLICT (${key}) DO UPDATE SET ${changes.join(', ').replaceAll(/\bnew\./g, 'excluded.')}`
    },
    deleteFirst: ({ from, where, orderBy, limit }) =>
      `DELETE FROM ${from} WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${from} WHERE ${where} ORDER BY ${orderBy} LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    updateByRows: (table, set, where) =>
      `UPDATE ${table} AS t SET ${assignments(set)} FROM ${lookUp(table, where)}`,
    deleteByRows: (table, where) => `DELETE FROM ${table} AS t USING ${lookUp(table, where)}`,
    firstOfAll: (selects, orderBy, limit) => {
      const firsts = selects.map((select) => `(${select} ORDER BY ${orderBy} LIMIT ${limit})`)
      return `SELECT * FROM (${firsts.join(' UNION ALL ')}) found ORDER BY ${orderBy} LIMIT ${limit}`
    },

    table: (name) => `${schema}.${name}`,
    placeholder: (number, type) => `$${number}::${typeOf(type)}`,
    isPositional: false,
    inList: (placeholder) => `= ANY (${placeholder})`,
    limit: (placeholder) => placeholder,
    batch(_name, columns, place) {
      const arrays = columns.map(({ name, type }) => {
        const number = place({ from: 'row', name, type })
        return `$${number}::${typeOf(type)}[]`
      })
      return `unnest(${arrays.join(', ')}) AS v (${columns.map(({ name }) => name).join(', ')})`
    },
    runsBatchesByRow: false,
  }
  return { ...words, jobs: createJobLayout(words) }
}
