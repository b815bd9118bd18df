import { escapeIdentifier } from 'pg'
import { SignalboxError } from '../../core/errors.ts'
import type { Backend, BackendOptions, Stores } from '../backend.ts'
import { requireSchema } from '../migration-plan.ts'
import { createNotifyingFleet } from '../notifying-fleet.ts'
import { SchemaWatch } from '../schema-watch.ts'
import { createAuditStore } from '../sql/audit.ts'
import { createGuardStore } from '../sql/guards/guards.ts'
import { createLogStore } from '../sql/logs.ts'
import { createMonitorStore } from '../sql/monitor/monitor.ts'
import { pruneRequestKeys } from '../sql/request-keys.ts'
import { createScheduleStore, listScheduledNamespaces } from '../sql/schedules.ts'
import { createTokenStore } from '../sql/tokens.ts'
import { Views } from '../views.ts'
import { nowMs } from './connection/columns.ts'
import { Connections } from './connection/connection.ts'
import { PostgresDatabase } from './connection/database.ts'
import { parseTarget, type Target, takesOptions } from './connection/target.ts'
import { fleetStatements, PostgresFleet } from './fleet.ts'
import { isOneStatement } from './jobs/adder.ts'
import { gateStatements, PostgresDependencies } from './jobs/dependencies.ts'
import { PostgresJobs } from './jobs/jobs.ts'
import { createSpace, type Ground } from './jobs/namespace-memory.ts'
import { Pinned } from './jobs/pinned.ts'
import { listQueued } from './jobs/queued.ts'
import { jobStatements } from './jobs/statements.ts'
import { createPostgresLocks } from './locks/locks.ts'
import { waitQueueStatements } from './locks/wait-queue-statements.ts'
import { createMigrator, withClient } from './migrator.ts'
import { PostgresNotifiers } from './notifier.ts'
import { RequestKeys } from './request-keys.ts'

/**
 * Opens a Postgres database. Besides what `pg` understands, its address takes `?schema=` (where the tables are; else the
 * first schema of the connection's search path) and `?pool=` (how many transactions of handlers may be open, 20).
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
  const notifiers = new PostgresNotifiers(connections, schema, warnings)
  let closing: Promise<void> | undefined
  try {
    const watch = new SchemaWatch(() => migrator.statusBy(connections), schemaLookMs)
    const ground = await readGround(connections, quoted, watch)
    const { database } = ground
    const keys = new RequestKeys(connections, database, quoted)
    const waitQueues = waitQueueStatements(quoted)
    const boards = fleetStatements(quoted)
    const dependencies = gateStatements(quoted)
    const createStores = (name: string): Stores => {
      const notifier = notifiers.within(name)
      const space = createSpace(ground, name, notifier)
      const jobs = new PostgresJobs(connections, space)
      const adding = database.withJobs((client, added) => {
        const pinned = new Pinned(connections, client)
        return {
          added: new PostgresJobs(connections, space, pinned).add(added),
          isSent: isOneStatement(added),
          committed: () => pinned.committed(),
        }
      })
      return {
        jobs,
        logs: createLogStore(database, name),
        schedules: createScheduleStore(adding, name),
        dependencies: new PostgresDependencies(connections, space, dependencies),
        locks: createPostgresLocks(connections, name, quoted, waitQueues),
        guards: createGuardStore(database, name, jobs),
        monitor: createMonitorStore(adding, name),
        audit: createAuditStore(database, name),
        fleet: createNotifyingFleet(new PostgresFleet(connections, name, boards), notifier),
        notifier,
        keyed: (key) => ({ jobs: keys.view(space, jobs, key) }),
      }
    }
    const stores = createStores(namespace)
    const views = new Views(createStores)
    const close = () => {
      closing ??= (async () => {
        notifiers.close()
        await Promise.all([...ground.sweepers].map((sweeper) => sweeper.sweep()))
        await connections.close()
      })()
      return closing
    }
    return {
      name: 'postgres',
      traits: { transactions: true, remoteWakeUps: true },
      ...stores,
      tokens: createTokenStore(database),
      within: (name) => (name === namespace ? stores : views.within(name)),
      pruneKeys: (limit) => pruneRequestKeys(database, limit),
      async subscribedNamespaces(limit) {
        const text = `SELECT DISTINCT namespace FROM ${quoted}.monitor_subscription ORDER BY namespace LIMIT $1`
        const { rows } = await connections.run<{ namespace: string }>({ name: 'sb_subscribed', text }, [
          limit,
        ])
        return rows.map((row) => row.namespace)
      },
      scheduledNamespaces: (limit) => listScheduledNamespaces(database, limit),
      queuedNamespaces: (queue, limit) => listQueued(connections, quoted, queue, limit),
      async blockedNamespaces(limit) {
        const { rows } = await connections.run<{ namespace: string }>(dependencies.blocked, [limit])
        return rows.map((row) => row.namespace)
      },
      async dispatchedNamespaces(limit) {
        const { rows } = await connections.run<{ namespace: string }>(boards.dispatched, [limit])
        return rows.map((row) => row.namespace)
      },
      migrator: {
        // Whoever asks whether a server is ready does so every few seconds: not by a connection of its own each time.
        status: () => migrator.statusBy(connections),
        async up(onStep) {
          connections.refuseClosed()
          return migrator.up(onStep)
        },
        sql: () => migrator.sql(),
      },
      warnings,
      async ping() {
        await connections.run({ name: 'sb_ping', text: 'SELECT 1' }, [])
      },
      async time() {
        const text = `SELECT ${nowMs} AS now`
        const { rows } = await connections.run<{ now: string }>({ name: 'sb_now', text }, [])
        return Number(rows[0]!.now)
      },
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await connections.close()
    throw error
  }
}

async function readGround(connections: Connections, quoted: string, schema: SchemaWatch): Promise<Ground> {
  const { rows } = await connections.run<{ value: string }>(
    { name: 'sb_store_id', text: `SELECT value FROM ${quoted}.signalbox_meta WHERE key = 'store_id'` },
    [],
  )
  const storeId = rows[0]!.value
  return {
    connections,
    statements: jobStatements(quoted),
    database: new PostgresDatabase(connections, quoted, storeId),
    storeId,
    sweepers: new Set(),
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
    ['synchronous_commit', 'a crash of the server may lose what was answered as written'],
    ['full_page_writes', 'a crash of the machine may destroy the database'],
  ]
  const warnings = weak
    .filter(([name]) => settings[name] === 'off')
    .map(([name, risk]) => `Postgres runs with ${name} = off: ${risk}.`)
  return { schema, warnings }
}
