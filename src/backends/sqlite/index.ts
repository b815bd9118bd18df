import type { Backend, BackendOptions } from '../backend.ts'
import { requireSchema } from '../migrate.ts'
import { SqliteBell } from './bell.ts'
import { readStoreId } from './callertx.ts'
import { type Connection, createFile, openReader, openWriter, parseLocation } from './connection.ts'
import { closed } from './fault.ts'
import { Gate } from './gate.ts'
import { SqliteJobs } from './jobs.ts'
import { createMigrator } from './migrator.ts'
import { Reader } from './reader.ts'
import { Transactions } from './transact.ts'

/**
 * SQLite in one file on this host, through node:sqlite: the default, with nothing to install. Three connections: one
 * for our own writes, one for reads, one for handlers' transactions. The schema is always brought up to date, because
 * nobody else could be meant to do it.
 */
export async function openSqlite(url: string, { namespace }: BackendOptions): Promise<Backend> {
  const location = parseLocation(url)
  createFile(location)
  let isClosed = false
  const check = () => {
    if (isClosed) throw closed()
  }

  const reader = new Reader(() => openReader(location))
  const bell = new SqliteBell(reader)
  const began = (connection: Connection) => bell.began(connection)
  const open = () => openWriter(location)
  const gate = new Gate({ open, began })
  const transactions = new Transactions({ gate, namespace, open, began })
  const migrator = createMigrator(gate, reader)

  const close = async () => {
    isClosed = true
    bell.close()
    // Before the writers: SQLite removes `-wal` and `-shm` with the last connection, if that one may write.
    reader.close()
    await gate.close()
    transactions.close()
  }
  try {
    await migrator.up()
    requireSchema(await migrator.status())
    const storeId = await reader.read((connection) => readStoreId(connection, 'main')!)
    return {
      name: 'sqlite',
      traits: { transactions: true, remoteBell: true },
      jobs: new SqliteJobs({
        namespace,
        home: { path: location.path, storeId },
        gate,
        reader,
        transactions,
        check,
      }),
      bell,
      migrator,
      warnings: location.synchronous === 'full' ? [] : [weak],
      async ping() {
        await reader.read((connection) => connection.get('SELECT 1'))
      },
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
