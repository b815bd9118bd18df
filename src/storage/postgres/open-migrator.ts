import type { Client } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { Migrator } from '../backend.ts'
import { type Migration, printMigrations } from '../migration-plan.ts'
import { parseTarget } from './connection/target.ts'
import { migrationsFor } from './migrations/index.ts'
import { createMigrator, withClient, writeNote } from './migrator.ts'

/** The schema of a database, without a store on it. Nothing is connected to before it is asked. */
export function openPostgresMigrator(
  url: string,
  stepsFor: (quoted: string) => readonly Migration[] = migrationsFor,
): Migrator & AsyncDisposable {
  const target = parseTarget(url)

  async function connect(): Promise<Migrator> {
    const schema = target.schema ?? (await withClient(target, currentSchema))
    return createMigrator(target, schema, quote(schema), stepsFor(quote(schema)))
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

/** Where the connection's search_path leads: to what `open` uses as well. */
async function currentSchema(client: Client): Promise<string> {
  const { rows } = await client.query<{ schema: string | null }>('SELECT current_schema() AS schema')
  const schema = rows[0]?.schema ?? null
  if (schema !== null) return schema
  throw new SignalboxError(
    'store_unavailable',
    'No schema of the search_path exists in this Postgres database. Name one in its address: ?schema=signalbox.',
  )
}

/** Since Postgres 15 only its owner may create in `public`, so this is what many meet first. */
function notPermitted(cause: unknown): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    'This user may not make tables there. Let it (GRANT CREATE ON SCHEMA), name a schema of its own (?schema=signalbox), or have `signalbox migrate sql` run by who may.',
    { cause },
  )
}

/** The steps as a script of one transaction, with what `up` would have noted of them. */
function print(schema: string, isGuess: boolean, stepsFor: typeof migrationsFor): string {
  const quoted = quote(schema)
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

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
