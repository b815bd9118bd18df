import { escapeIdentifier } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { Backend, BackendOptions, Stores } from '../backend.ts'
import { requireSchema, SchemaWatch } from '../migration-plan.ts'
import { createLockStore } from '../sql/locks/locks.ts'
import { createSharedStores, createStoreWide, Views } from '../sql/shared-stores.ts'
import { Connections } from './connection/connection.ts'
import { PostgresDatabase } from './connection/database.ts'
import { isAnswerLost } from './connection/failures.ts'
import { Pinned } from './connection/sender.ts'
import { parseTarget, type Target, takesOptions } from './connection/target.ts'
import { isOneStatement } from './jobs/add.ts'
import { createPostgresJobs } from './jobs/jobs.ts'
import { createSpace, type StoreContext } from './jobs/space.ts'
import { createMigrator, withClient } from './migrator.ts'
import { PostgresNotifiers } from './notifier.ts'
import { RequestKeys } from './request-keys.ts'

/**
 * Opens a Postgres database. Besides what `pg` understands, its address takes `?schema=` (where the tables are; else
 * the first schema of the connection's search path) and `?pool=` (how many transactions of handlers may be open, 20).
 */
export async function openPostgres(
  url: string,
  { namespace, migrate, meter, schemaLookMs }: BackendOptions,
): Promise<Backend> {
  const target = parseTarget(url)
  const optionsTaken = await takesOptions(target)
  const { schema, warnings } = await withClient(target, (client) => look(client, target))
  if (!optionsTaken) {
    warnings.push(
      'This seems to be a connection pooler: time limits of statements are kept by the client alone, and LISTEN may be lost on it, so that jobs are found by polling.',
    )
  }
  const quoted = escapeIdentifier(schema)
  const migrator = createMigrator(target, schema, quoted)
  if (migrate) await migrator.up()
  requireSchema(await migrator.status())

  const connections = new Connections(target, optionsTaken, meter)
  const notifiers = new PostgresNotifiers(connections, schema, optionsTaken, warnings)
  let closing: Promise<void> | undefined
  try {
    const watch = new SchemaWatch(() => migrator.statusBy(connections), schemaLookMs)
    const context = await readStoreContext(connections, quoted, watch)
    const { database } = context
    const keys = new RequestKeys(connections, database, quoted)
    const createStores = (name: string): Stores => {
      const notifier = notifiers.within(name)
      const space = createSpace(context, name, notifier)
      const jobs = createPostgresJobs(connections, space)
      const adding = database.withJobs((client, added) => {
        const pinned = new Pinned(connections, client)
        return {
          added: createPostgresJobs(connections, space, pinned).add(added),
          isSent: isOneStatement(added),
          committed: () => pinned.committed(),
        }
      })
      return {
        ...createSharedStores({
          ...{ database, adding, namespace: name, jobs, notifier },
          onReady: () => space.positions.forget(),
        }),
        locks: createLockStore(database, name, isAnswerLost),
        keyed: (key) => ({ jobs: keys.view(space, jobs, key) }),
      }
    }
    const stores = createStores(namespace)
    const views = new Views(createStores)
    const close = () => {
      closing ??= (async () => {
        notifiers.close()
        await connections.close()
      })()
      return closing
    }
    return {
      name: 'postgres',
      traits: { transactions: true, remoteWakeUps: true },
      ...stores,
      ...createStoreWide(database),
      within: (name) => (name === namespace ? stores : views.within(name)),
      migrator: {
        // A readiness probe runs every few seconds, so it must not open a connection each time.
        status: () => migrator.statusBy(connections),
        async up(onStep) {
          connections.refuseClosed()
          return migrator.up(onStep)
        },
        sql: () => migrator.sql(),
      },
      warnings,
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await connections.close()
    throw error
  }
}

async function readStoreContext(
  connections: Connections,
  quoted: string,
  schema: SchemaWatch,
): Promise<StoreContext> {
  const { rows } = await connections.run<{ value: string }>(
    { name: 'sb_store_id', text: `SELECT value FROM ${quoted}.signalbox_meta WHERE key = 'store_id'` },
    [],
  )
  const storeId = rows[0]!.value
  return {
    schemaName: quoted,
    database: new PostgresDatabase(connections, quoted, storeId),
    storeId,
    schema,
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
    ['synchronous_commit', 'a crash of the server may lose acknowledged writes'],
    ['full_page_writes', 'a crash of the machine may destroy the database'],
  ]
  const warnings = weak
    .filter(([name]) => settings[name] === 'off')
    .map(([name, risk]) => `Postgres runs with ${name} = off: ${risk}.`)
  return { schema, warnings }
}
