import { Client, escapeIdentifier } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { AppliedMigration, MigrationStatus, Migrator, OnMigrationStep } from '../backend.ts'
import {
  type MarksRow,
  type Migration,
  named,
  noSchema,
  noteOf,
  oldestKey,
  planMigrations,
  printMigrations,
  readMarks,
  type SchemaMarks,
  statusOf,
} from '../migration-plan.ts'
import { sqlState, toStoreError } from './connection/failures.ts'
import type { Sender } from './connection/sender.ts'
import { parseTarget, type Target } from './connection/target.ts'
import { migrationsFor } from './schema.ts'

export interface PostgresMigrator extends Migrator {
  /** Like `status`, through an open connection, for frequent calls. */
  statusBy(sender: Pick<Sender, 'run'>): Promise<MigrationStatus>
}

/**
 * Applies all steps in one transaction under one advisory lock, DDL and bookkeeping together. So if many programs start
 * at once, one of them applies the steps and the others find them done. A kill at any point leaves the schema
 * unchanged.
 */
export function createMigrator(
  target: Target,
  schema: string,
  quoted: string,
  known: readonly Migration[] = migrationsFor(quoted),
): PostgresMigrator {
  return {
    async statusBy(sender) {
      const { rows } = await sender.run<MarksRow>({ name: 'sb_schema', text: marksStatement(quoted) }, [])
      return statusOf(readMarks(rows[0]!), known)
    },
    status: () => withClient(target, async (client) => statusOf(await marksOf(client, quoted), known)),
    up: (onStep) => withClient(target, (client) => up(client, schema, quoted, known, onStep)),
    sql: () => printMigrations(known),
  }
}

/** Reads the facts of the schema, if there is one. */
function marksStatement(quoted: string): string {
  return `SELECT coalesce(max(number), 0)::int AS current,
    (SELECT name FROM ${quoted}.signalbox_migration WHERE number = 1) AS first,
    (SELECT value FROM ${quoted}.signalbox_meta WHERE key = '${oldestKey}') AS note
  FROM ${quoted}.signalbox_migration`
}

/** Records which programs may use the schema after these migrations. */
export function writeNote(quoted: string, known: readonly Migration[]): string {
  return `INSERT INTO ${quoted}.signalbox_meta (key, value) VALUES ('${oldestKey}', '${noteOf(known)}')
  ON CONFLICT (key) DO UPDATE SET value = excluded.value`
}

async function marksOf(client: Client, quoted: string): Promise<SchemaMarks> {
  // Check for the table first, because a query of a missing table would end the transaction.
  const { rows: there } = await client.query(`SELECT to_regclass($1) AS found`, [
    `${quoted}.signalbox_migration`,
  ])
  if (there[0].found === null) return noSchema
  const { rows } = await client.query(marksStatement(quoted))
  return readMarks(rows[0])
}

async function up(
  client: Client,
  schema: string,
  quoted: string,
  known: readonly Migration[],
  onStep?: OnMigrationStep,
): Promise<readonly AppliedMigration[]> {
  await client.query('BEGIN')
  // A step must not wait long for a locked table: all other transactions would wait behind it.
  await client.query(`SET LOCAL lock_timeout = '60s'`)
  await client.query(`SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, [
    `signalbox migrations ${schema}`,
  ])
  await client.query(`SET LOCAL lock_timeout = '10s'`)
  await client.query('SET LOCAL client_min_messages = warning')
  const { steps } = planMigrations(await marksOf(client, quoted), known)
  if (steps.length > 0) {
    const { rowCount } = await client.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
    if (rowCount === 0) await client.query(`CREATE SCHEMA ${quoted}`)
    await client.query(
      `CREATE TABLE IF NOT EXISTS ${quoted}.signalbox_migration (
         number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`,
    )
  }
  for (const [at, { number, name, statements }] of steps.entries()) {
    onStep?.({ number, name }, at, steps.length)
    for (const statement of statements) await client.query(statement)
    await client.query(`INSERT INTO ${quoted}.signalbox_migration (number, name) VALUES ($1, $2)`, [
      number,
      name,
    ])
  }
  if (steps.length > 0) await client.query(writeNote(quoted, known))
  await client.query('COMMIT')
  return steps.map(named)
}

/** Opens a separate connection: a migration may take longer than the time-outs of the store. */
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
    // In a migration, "no such table" means a wrong step, not a missing schema, so the caller gets the original error.
    throw sqlState(error)?.startsWith('42') ? error : toStoreError(error)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** A migrator without a store. It connects at its first call. */
export function openPostgresMigrator(
  url: string,
  stepsFor: (quoted: string) => readonly Migration[] = migrationsFor,
): Migrator & AsyncDisposable {
  const target = parseTarget(url)

  async function connect(): Promise<Migrator> {
    const schema = target.schema ?? (await withClient(target, currentSchema))
    return createMigrator(target, schema, escapeIdentifier(schema), stepsFor(escapeIdentifier(schema)))
  }

  return {
    status: async () => (await connect()).status(),
    async up(onStep) {
      const migrator = await connect()
      try {
        return await migrator.up(onStep)
      } catch (error) {
        throw (error as { code?: unknown }).code === '42501' ? notPermitted(error) : error
      }
    },
    sql: () => print(target.schema ?? 'public', target.schema === undefined, stepsFor),
    async [Symbol.asyncDispose]() {},
  }
}

/** The first schema of the connection's search_path, which `open` uses as well. */
async function currentSchema(client: Client): Promise<string> {
  const { rows } = await client.query<{ schema: string | null }>('SELECT current_schema() AS schema')
  const schema = rows[0]?.schema ?? null
  if (schema !== null) return schema
  throw new SignalboxError(
    'store_unavailable',
    'No schema of the search_path exists in this Postgres database. Name one in its address: ?schema=signalbox.',
  )
}

/** Since Postgres 15 only the owner may create in `public`, so many users get this error first. */
function notPermitted(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'This user may not create tables in the schema. Grant it (GRANT CREATE ON SCHEMA), choose another schema (?schema=signalbox), or let an administrator run the output of `signalbox migrate sql`.',
    { cause },
  )
}

/** The steps as a script of one transaction, with the records that `up` would write. */
function print(schema: string, isGuess: boolean, stepsFor: typeof migrationsFor): string {
  const quoted = escapeIdentifier(schema)
  const known = stepsFor(quoted)
  const recorded = known.map(
    ({ number, name }) =>
      `INSERT INTO ${quoted}.signalbox_migration (number, name) VALUES (${number}, '${name}');\n`,
  )
  return `${isGuess ? `-- For the schema ${quoted}; another one: add ?schema=NAME to the address.\n\n` : ''}BEGIN;

CREATE SCHEMA IF NOT EXISTS ${quoted};

CREATE TABLE IF NOT EXISTS ${quoted}.signalbox_migration (
  number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());

${printMigrations(known)}
${recorded.join('')}
${writeNote(quoted, known)};

COMMIT;
`
}
