import type { Migration } from '../migration-plan.ts'
import { createMigrations } from '../sql/schema/migrations.ts'
import { type Index, listTexts, type SchemaDialect } from '../sql/schema/table.ts'

const types: Readonly<Record<string, string>> = {
  name: 'text COLLATE "C"',
  text: 'text',
  int: 'integer',
  big: 'bigint',
  bool: 'boolean',
}

function dialect(schema: string): SchemaDialect {
  const createIndex = (table: string, { name, isUnique, over }: Index) =>
    `CREATE ${isUnique ? 'UNIQUE ' : ''}INDEX ${name} ON ${schema}.${table} ${over}`
  return {
    engine: 'postgres',
    place: `${schema}.`,
    type: ({ column, type, size }) =>
      type === 'enum' ? `${types.name} CHECK (${column} IN ${listTexts(size!)})` : types[type],
    generated: (expression) => `GENERATED ALWAYS AS ${expression} STORED`,
    quote: (name) => name,
    create({ name, fillfactor }, key, columns, indexes) {
      const parts = [...columns, `PRIMARY KEY (${key})`].join(',\n  ')
      const space = fillfactor === undefined ? '' : ` WITH (fillfactor = ${fillfactor})`
      return [
        `CREATE TABLE ${schema}.${name} (\n  ${parts}\n)${space}`,
        ...indexes.map((index) => createIndex(name, index)),
      ]
    },
    createIndex,
  }
}

/** One of this many jobs is in the sample for estimated counts. */
export const sampleShare = 128

export const hashOfId = 'hashtextextended(id, 0)'
export const isInSample: string = `(${hashOfId} & ${sampleShare - 1}) = 0`

/**
 * The indexes for counts: the waiting jobs by queue, and samples of live and of dead jobs in the order of a hash of
 * their ids. A job outside the sample has no entry. The conditions hide these indexes from the planner of all other
 * statements.
 */
const counts = {
  job_queue: `
    job_queue_waiting_queue (namespace, queue) WHERE state = 'waiting' AND queue <> ''
    job_queue_sample (namespace, queue, state, ${hashOfId}) WHERE ${isInSample}`,
  job_history: `
    job_history_sample (namespace, queue, ${hashOfId}) WHERE state = 'dead' AND ${isInSample}`,
}

/** All migration steps for one schema. `schema` is quoted. */
export function migrationsFor(schema: string): readonly Migration[] {
  return createMigrations(dialect(schema), counts)
}
