import { existsSync } from 'node:fs'
import type { Migrator } from '../backend.ts'
import { type Migration, noSchema, statusOf } from '../migration-plan.ts'
import { createFile, openReader, openWriter, parseLocation } from './connection/connection.ts'
import { Reader } from './connection/reader.ts'
import { createMigrator } from './migrator.ts'
import { migrations } from './schema.ts'
import { WriteQueue } from './writing/write-queue.ts'
import { createQueueWriter } from './writing/writes.ts'

/** Opens the migrator of a file without a store. `status` neither creates nor changes a database; only `up` does. */
export function openSqliteMigrator(
  url: string,
  known: readonly Migration[] = migrations,
): Migrator & AsyncDisposable {
  const location = parseLocation(url)
  const writer = createQueueWriter(new WriteQueue({ open: () => openWriter(location) }))
  const reader = new Reader(() => openReader(location))
  const migrator = createMigrator(writer, reader, known)
  return {
    async status() {
      return existsSync(location.path) ? migrator.status() : statusOf(noSchema, known)
    },
    async up(onStep) {
      createFile(location)
      return migrator.up(onStep)
    },
    sql() {
      const recorded = known.map(
        ({ number, name }) =>
          `INSERT INTO signalbox_migration (number, name, applied_at) VALUES (${number}, '${name}', unixepoch() * 1000);\n`,
      )
      return `BEGIN IMMEDIATE;\n\n${migrator.sql()}\n${recorded.join('')}\nCOMMIT;\n`
    },
    async [Symbol.asyncDispose]() {
      reader.close()
      await writer.close()
    },
  }
}
