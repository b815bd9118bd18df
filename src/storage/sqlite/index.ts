import type { Backend, BackendOptions, Stores } from '../backend.ts'
import { requireSchema, SchemaWatch } from '../migration-plan.ts'
import { createSharedStores, createStoreWide } from '../sql/shared-stores.ts'
import { readStoreId } from './connection/caller-transaction.ts'
import { createFile, openReader, parseLocation } from './connection/connection.ts'
import { SqliteDatabase } from './connection/database.ts'
import { closed } from './connection/failures.ts'
import { Reader } from './connection/reader.ts'
import { createSqliteJobs } from './jobs/jobs.ts'
import { readBootId } from './locks/lease-clock.ts'
import { createSqliteLocks } from './locks/locks.ts'
import { createMigrator } from './migrator.ts'
import { SqliteNotifier } from './notifier.ts'
import { writeHere, writeInThread } from './writing/writing.ts'

/**
 * SQLite in one file on this host, through node:sqlite: the default engine, with nothing to install. The store has
 * three connections: one for its writes, one for reads, one for handlers' transactions. Opening the store always
 * upgrades the schema, because a local file has no administrator who would do it.
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
    // Before the writers: SQLite removes `-wal` and `-shm` with the last connection, but only if that one can write.
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
      const { jobs, keyed } = createSqliteJobs({
        ...{ namespace: name, writer, reader, database, transactions, hasHolds: !thread, schema, check },
      })
      return {
        ...createSharedStores({
          ...{ database, adding: database, namespace: name, jobs, notifier: notifier.within(name) },
          onReady: () => undefined,
        }),
        locks: createSqliteLocks(name, writer, reader, check),
        keyed: (key) => ({ jobs: keyed(key) }),
      }
    }
    const own = storesOf(namespace)
    return {
      ...own,
      name: 'sqlite',
      traits: { transactions: !thread, remoteWakeUps: true },
      ...createStoreWide(database),
      within: (other) => (other === namespace ? own : storesOf(other)),
      migrator,
      warnings: location.synchronous === 'full' ? [] : [weak],
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
