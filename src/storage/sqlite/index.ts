import type { Backend, BackendOptions, RequestKey, Stores } from '../backend.ts'
import { requireSchema } from '../migration-plan.ts'
import { createNotifyingFleet } from '../notifying-fleet.ts'
import { createKeyedJobs } from '../request-key.ts'
import { SchemaWatch } from '../schema-watch.ts'
import { createAuditStore } from '../sql/audit.ts'
import { createGuardStore } from '../sql/guards/guards.ts'
import { createLogStore } from '../sql/logs.ts'
import { createMonitorStore } from '../sql/monitor/monitor.ts'
import { pruneRequestKeys } from '../sql/request-keys.ts'
import { createScheduleStore, listScheduledNamespaces } from '../sql/schedules.ts'
import { createTokenStore } from '../sql/tokens.ts'
import { readStoreId } from './connection/caller-transaction.ts'
import { createFile, openReader, parseLocation, readNow } from './connection/connection.ts'
import { SqliteDatabase } from './connection/database.ts'
import { closed } from './connection/failures.ts'
import { Reader } from './connection/reader.ts'
import { createSqliteFleet, listDispatched } from './fleet.ts'
import { createSqliteDependencies } from './jobs/dependencies.ts'
import { listGatedNamespaces } from './jobs/dependency-reads.ts'
import { SqliteJobs } from './jobs/jobs.ts'
import { listQueued } from './jobs/queued.ts'
import { readBootId } from './locks/lease-clock.ts'
import { createSqliteLocks } from './locks/locks.ts'
import { createMigrator } from './migrator.ts'
import { SqliteNotifier } from './notifier.ts'
import { writeHere, writeInThread } from './writing/writing.ts'

/**
 * SQLite in one file on this host, through node:sqlite: the default, with nothing to install. Three connections: one
 * for our own writes, one for reads, one for handlers' transactions. The schema is always brought up to date, because
 * nobody else could be meant to do it.
 */
export async function openSqlite(
  url: string,
  { namespace, thread = false, meter, schemaLookMs, now }: BackendOptions,
): Promise<Backend> {
  const location = { ...parseLocation(url), now }
  createFile(location)
  let isClosed = false
  const check = () => {
    if (isClosed) throw closed()
  }

  const reader = new Reader(() => openReader(location))
  const writing = thread ? writeInThread(location, meter) : writeHere(location, reader, meter)
  const { writer } = writing
  const notifier = new SqliteNotifier(writing.watch)
  const migrator = createMigrator(writer, reader)
  const schema = new SchemaWatch(() => migrator.status(), schemaLookMs)

  const close = async () => {
    isClosed = true
    notifier.close()
    // Before the writers: SQLite removes `-wal` and `-shm` with the last connection, if that one may write.
    reader.close()
    await writing.close()
  }
  try {
    await migrator.up()
    requireSchema(await migrator.status())
    await writer.write({ operation: 'rebaseLeases', namespace: '', args: [readBootId()] })
    const storeId = await reader.read((connection) => readStoreId(connection, 'main')!)
    const transactions = writing.transactionsAt({ path: location.path, storeId, now })
    const database = new SqliteDatabase({ writer, reader, transactions, check })
    const storesOf = (name: string): Stores => {
      const jobs = new SqliteJobs({
        namespace: name,
        writer,
        reader,
        database,
        transactions,
        hasHolds: !thread,
        schema,
        check,
      })
      const once = (key: RequestKey) => createKeyedJobs(jobs, (method, args) => jobs.once(key, method, args))
      const logs = createLogStore(database, name)
      const schedules = createScheduleStore(database, name)
      const dependencies = createSqliteDependencies({ namespace: name, writer, reader, transactions, check })
      const locks = createSqliteLocks(name, writer, reader, check)
      const guards = createGuardStore(database, name, jobs)
      const monitor = createMonitorStore(database, name)
      const audit = createAuditStore(database, name)
      const fleet = createSqliteFleet({ namespace: name, writer, reader, check })
      const ownNotifier = notifier.within(name)
      return {
        ...{ jobs, logs, schedules, dependencies, locks, guards, monitor, audit },
        fleet: createNotifyingFleet(fleet, ownNotifier),
        notifier: ownNotifier,
        keyed: (key) => ({ jobs: once(key) }),
      }
    }
    const own = storesOf(namespace)
    return {
      ...own,
      name: 'sqlite',
      traits: { transactions: !thread, remoteWakeUps: true },
      tokens: createTokenStore(database),
      within: (other) => (other === namespace ? own : storesOf(other)),
      pruneKeys: (limit) => pruneRequestKeys(database, limit),
      subscribedNamespaces: (limit) =>
        reader.read((connection) =>
          connection
            .all<{ namespace: string }>(
              'SELECT DISTINCT namespace FROM monitor_subscription ORDER BY namespace LIMIT ?',
              limit,
            )
            .map(({ namespace }) => namespace),
        ),
      scheduledNamespaces: (limit) => listScheduledNamespaces(database, limit),
      queuedNamespaces: (queue, limit) => reader.read((connection) => listQueued(connection, queue, limit)),
      blockedNamespaces: (limit) => reader.read((connection) => listGatedNamespaces(connection, limit)),
      dispatchedNamespaces: (limit) => reader.read((connection) => listDispatched(connection, limit)),
      migrator,
      warnings: location.synchronous === 'full' ? [] : [weak],
      async ping() {
        await reader.read((connection) => connection.get('SELECT 1'))
      },
      time: () => reader.read(readNow),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const weak =
  'SQLite runs with synchronous=normal: a power cut may undo the last commits, though they were answered. Leave `?synchronous=normal` off to keep them.'
