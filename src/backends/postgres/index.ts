import { escapeIdentifier } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { Backend, BackendOptions } from '../backend.ts'
import { requireSchema } from '../migrate.ts'
import { channelOf, PostgresBell } from './bell.ts'
import { Connections, parseTarget, type Target, takesOptions } from './connection.ts'
import { PostgresJobs } from './jobs.ts'
import { createMigrator, withClient } from './migrator.ts'

/**
 * Opens a Postgres database. Besides what `pg` understands, its address takes `?schema=` (where the tables are; else the
 * first schema of the connection's search path) and `?pool=` (how many transactions of handlers may be open, 20).
 */
export async function openPostgres(url: string, { namespace, migrate }: BackendOptions): Promise<Backend> {
  const target = parseTarget(url)
  const optionsTaken = await takesOptions(target)
  const { schema, warnings } = await withClient(target, (client) => look(client, target))
  if (!optionsTaken) {
    warnings.push(
      'This seems to be a connection pooler: time limits of statements are kept by the client alone.',
    )
  }
  const quoted = escapeIdentifier(schema)
  const migrator = createMigrator(target, schema, quoted)
  if (migrate) await migrator.up()
  requireSchema(await migrator.status())

  const connections = new Connections(target, optionsTaken)
  const bell = new PostgresBell(connections, channelOf(schema, namespace), warnings)
  let closing: Promise<void> | undefined
  try {
    const { rows } = await connections.run<{ value: string }>(
      { name: 'sb_store_id', text: `SELECT value FROM ${quoted}.signalbox_meta WHERE key = 'store_id'` },
      [],
    )
    const jobs = new PostgresJobs(connections, quoted, namespace, rows[0]!.value)
    const close = () => {
      closing ??= (async () => {
        await bell.close()
        await jobs.flush()
        await connections.close()
      })()
      return closing
    }
    return {
      name: 'postgres',
      traits: { transactions: true, remoteBell: true },
      jobs,
      bell,
      migrator: {
        async status() {
          connections.refuseClosed()
          return migrator.status()
        },
        async up() {
          connections.refuseClosed()
          return migrator.up()
        },
        sql: () => migrator.sql(),
      },
      warnings,
      async ping() {
        await connections.run({ name: 'sb_ping', text: 'SELECT 1' }, [])
      },
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await connections.close()
    throw error
  }
}

interface Found {
  readonly schema: string
  readonly warnings: string[]
}

async function look(client: import('pg').Client, target: Target): Promise<Found> {
  const { rows } = await client.query(`
SELECT current_setting('server_version_num')::int AS version, current_schema() AS schema,
       current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('full_page_writes') AS full_page_writes`)
  const [settings] = rows
  if (settings.version < 130_000) {
    throw new SignalboxError(
      'engine_unsupported',
      'This Postgres is older than version 13, which Signalbox needs. Upgrade the server.',
    )
  }
  const schema = target.schema ?? settings.schema
  if (schema === null) {
    throw new SignalboxError(
      'invalid_argument',
      'The search path of this Postgres user names no schema that exists. Add ?schema=name to the address.',
    )
  }
  const weak: readonly [string, string][] = [
    ['fsync', 'a crash of the machine may destroy the database'],
    ['synchronous_commit', 'a crash of the server may lose what was answered as written'],
    ['full_page_writes', 'a crash of the machine may destroy the database'],
  ]
  const warnings = weak
    .filter(([name]) => settings[name] === 'off')
    .map(([name, risk]) => `Postgres runs with ${name} = off: ${risk}.`)
  return { schema, warnings }
}
