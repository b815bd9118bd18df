import { assignments, type Dialect } from '../sql/dialect.ts'
import { nowMs } from './connection/columns.ts'
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

/** Every value is cast, so that Postgres never has to guess. `schema` comes quoted. */
export function createPostgresDialect(schema: string): Dialect {
  const words: Omit<Dialect, 'jobs'> = {
    // The clock is volatile: only as a subquery is it read once, so that an index can be searched by it.
    now: `(SELECT ${nowMs})`,
    movingNow: nowMs,
    nowMicros: '(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)',
    forUpdate: 'FOR UPDATE',
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    thenJoin: 'JOIN',
    byIndex: () => '',
    text: (expression) => `CAST(${expression} AS text)`,
    integer: (expression) => `CAST(${expression} AS bigint)`,
    bytes: (column) => column,
    contains: (expression, part) => `strpos(${expression}, ${part}) > 0`,
    quote: (name) => `"${name}"`,
    greatest: (...expressions) => `greatest(${expressions.join(', ')})`,
    keepExisting: (key) => `ON CONFLICT (${key}) DO NOTHING`,
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
      `UPDATE ${table} AS t SET ${assignments(set)} FROM :rows WHERE ${where}`,
    deleteByRows: (table, where) => `DELETE FROM ${table} AS t USING :rows WHERE ${where}`,
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
