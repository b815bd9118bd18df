import type { Migration } from '../migration-plan.ts'
import { createMigrations } from '../sql/schema/migrations.ts'
import type { Index, SchemaDialect } from '../sql/schema/table.ts'

const types: Readonly<Record<string, string>> = {
  name: 'TEXT',
  text: 'TEXT',
  // Only Signalbox writes these columns, from closed types, so a CHECK would only slow down every write.
  enum: 'TEXT',
  int: 'INTEGER',
  big: 'INTEGER',
  bool: 'INTEGER',
}

const dialect: SchemaDialect = {
  engine: 'sqlite',
  place: '',
  type: ({ type }) => types[type],
  generated: (expression, isVirtual) => `AS ${expression} ${isVirtual ? 'VIRTUAL' : 'STORED'}`,
  quote: (name) => name,
  create({ name, sqliteNumber: number }, key, columns, indexes) {
    const isColumn = number !== undefined && number !== 'rowid'
    const parts = isColumn
      ? [`${number} INTEGER PRIMARY KEY`, ...columns]
      : [...columns, `PRIMARY KEY (${key})`]
    const all = isColumn ? [{ name: `${name}_key`, isUnique: true, over: `(${key})` }, ...indexes] : indexes
    return [
      `CREATE TABLE ${name} (\n  ${parts.join(',\n  ')}\n) STRICT${number === undefined ? ', WITHOUT ROWID' : ''}`,
      ...all.map((index) => createIndex(name, index)),
    ]
  },
  createIndex,
}

function createIndex(table: string, { name, isUnique, over }: Index): string {
  return `CREATE ${isUnique ? 'UNIQUE ' : ''}INDEX ${name} ON ${table} ${over}`
}

/** One of this many jobs is in the sample from which job counts are estimated. */
export const sampleShare = 128

/**
 * Whether a row is in the sample. Row numbers follow the order of inserts. The factor, 2^32 times the golden ratio,
 * spreads evenly spaced numbers evenly over the sample.
 */
export const isInSample: string = `((rowid & 2147483647) * 2654435761 >> 24) & ${sampleShare - 1} = 0`

/**
 * The indexes for job counts: scheduled and waiting jobs by queue, dead jobs by queue, and a sample of live jobs. A job
 * outside the sample has no entry there. The conditions hide these indexes from the planner of all other statements.
 */
const counts = {
  job_queue: `
    job_queue_idle (namespace, state, queue, run_at) WHERE (state = 'scheduled' OR state = 'waiting') AND queue <> ''
    job_queue_sample (namespace, queue, state, run_at, limit_key) WHERE ${isInSample}`,
  job_history: `
    job_history_dead (namespace, queue) WHERE state = 'dead' AND queue <> ''`,
}

export const migrations: readonly Migration[] = createMigrations(dialect, counts)
