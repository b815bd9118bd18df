import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SignalboxError } from '../core/errors.ts'

/**
 * Where a test box keeps its jobs: by default its own SQLite file. It is a file, and not `:memory:`, because the box
 * and the test need connections of their own to the same database, and one must be able to read while the other writes.
 * A box that was not closed leaves its file until the process ends.
 */
export interface TestDatabase {
  /** For `open`. */
  readonly url: string
  /** The test's own connection, opened when it is first asked for. Throws where there are no tables. */
  connect(): DatabaseSync
  /** Closes that connection, and removes a file of the box's own. */
  remove(): void
}

/** Without `url`, a SQLite file in a new folder. */
export function createTestDatabase(url: string | undefined): TestDatabase {
  const folder = url === undefined ? makeFolder() : undefined
  // Nothing is left to lose after a power cut, so no commit waits for the disk.
  const address = url ?? `sqlite:${join(folder!, 'test.db')}?synchronous=normal`
  let connection: DatabaseSync | undefined
  return {
    url: address,
    connect() {
      connection ??= new DatabaseSync(fileOf(address))
      return connection
    },
    remove() {
      if (connection?.isOpen) connection.close()
      if (folder !== undefined) removeFolder(folder)
    },
  }
}

function fileOf(url: string): string {
  if (url.startsWith('sqlite:')) return url.slice('sqlite:'.length).replace(/\?.*$/s, '')
  throw new SignalboxError(
    'transaction_unsupported',
    'This test box is on memory:, which has no tables. Open it without `url` to get a SQLite database.',
  )
}

const folders = new Set<string>()

function makeFolder(): string {
  if (folders.size === 0) process.once('exit', removeAll)
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-test-'))
  folders.add(folder)
  return folder
}

function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  folders.delete(folder)
  if (folders.size === 0) process.off('exit', removeAll)
}

function removeAll(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
}
