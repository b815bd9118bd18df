import { Client } from 'pg'
import type { AppliedMigration, MigrationStatus, Migrator } from '../backend.ts'
import { type Migration, named, planMigrations, printMigrations } from '../migrate.ts'
import type { Target } from './connection.ts'
import { sqlState, toStoreError } from './failures.ts'
import { migrationsFor } from './migrations/index.ts'

/**
 * Steps are applied in one transaction under one advisory lock, DDL and bookkeeping together. So of many starters one
 * applies each step and the others find it done, and a kill at any point leaves the schema as it was before.
 */
export function createMigrator(target: Target, schema: string, quoted: string): Migrator {
  const known = migrationsFor(quoted)
  return {
    status: () => withClient(target, (client) => statusOf(client, quoted, known)),
    up: () => withClient(target, (client) => up(client, schema, quoted, known)),
    sql: () => printMigrations(known),
  }
}

async function statusOf(
  client: Client,
  quoted: string,
  known: readonly Migration[],
): Promise<MigrationStatus> {
  const { current, latest, pending } = planMigrations(await currentOf(client, quoted), known)
  return { current, latest, pending }
}

async function currentOf(client: Client, quoted: string): Promise<number> {
  // Asked first, because reading a table that is not there would end the transaction.
  const { rows: there } = await client.query(`SELECT to_regclass($1) AS found`, [
    `${quoted}.signalbox_migration`,
  ])
  if (there[0].found === null) return 0
  const { rows } = await client.query(
    `SELECT coalesce(max(number), 0)::int AS number FROM ${quoted}.signalbox_migration`,
  )
  return rows[0].number
}

async function up(
  client: Client,
  schema: string,
  quoted: string,
  known: readonly Migration[],
): Promise<readonly AppliedMigration[]> {
  await client.query('BEGIN')
  // A step that needs a table which others hold must not queue for long: everybody else would queue behind it.
  await client.query(`SET LOCAL lock_timeout = '60s'`)
  await client.query(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [
    `signalbox migrations ${schema}`,
  ])
  await client.query(`SET LOCAL lock_timeout = '10s'`)
  await client.query('SET LOCAL client_min_messages = warning')
  const { steps } = planMigrations(await currentOf(client, quoted), known)
  if (steps.length > 0) {
    const { rowCount } = await client.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
    if (rowCount === 0) await client.query(`CREATE SCHEMA ${quoted}`)
    await client.query(
      `CREATE TABLE IF NOT EXISTS ${quoted}.signalbox_migration (
         number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`,
    )
  }
  for (const { number, name, statements } of steps) {
    for (const statement of statements) await client.query(statement)
    await client.query(`INSERT INTO ${quoted}.signalbox_migration (number, name) VALUES ($1, $2)`, [
      number,
      name,
    ])
  }
  await client.query('COMMIT')
  return steps.map(named)
}

/** A connection of its own: migrating may take longer than the store's statements ever should. */
export async function withClient<Result>(
  { config }: Target,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({ ...config, query_timeout: 600_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } catch (error) {
    // Here "no such table" is not a missing schema but a step that is wrong, and must be seen as it is.
    throw sqlState(error)?.startsWith('42') ? error : toStoreError(error)
  } finally {
    await client.end().catch(() => undefined)
  }
}
