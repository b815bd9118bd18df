import { SignalboxError } from '../../../core/errors.ts'
import type { Meter } from '../../../core/meter.ts'
import { endTransaction, type Home, writeInCallers } from '../connection/caller-transaction.ts'
import { type Connection, type Location, openWriter } from '../connection/connection.ts'
import { DataVersion, type Watch } from '../connection/data-version.ts'
import type { Reader } from '../connection/reader.ts'
import { Transactions } from '../connection/transact.ts'
import type { SqliteTransactions } from '../jobs/jobs.ts'
import { WriteQueue } from './write-queue.ts'
import { createWriteQueueMeter } from './write-queue-meter.ts'
import { WriterThread } from './writer-thread.ts'
import { createQueueWriter, type Writer } from './writes.ts'

/** The writer of a store, and the functions that depend on its thread. */
export interface Writing {
  readonly writer: Writer
  /** Notices commits of other processes, but not our own. */
  readonly watch: Watch
  /** For a store whose tables and id are known. */
  transactionsAt(home: Home): SqliteTransactions
  close(): Promise<void>
}

/** Writes on the caller's thread: each commit blocks it, and callers' transactions can take part. */
export function writeHere(location: Location, reader: Reader, meter?: Meter): Writing {
  const watch = new DataVersion(reader)
  const began = (connection: Connection) => watch.began(connection)
  const open = () => openWriter(location)
  const writeQueue = new WriteQueue({ open, began, meter: meter && createWriteQueueMeter(meter, true) })
  const writer = createQueueWriter(writeQueue)
  const transactions = new Transactions({ writeQueue, open, began })
  return {
    writer,
    watch,
    transactionsAt: (home) => ({
      transact: (namespace, work, options) => transactions.transact(namespace, work, options),
      transactAll: (namespace, works, options) => transactions.transactAll(namespace, works, options),
      join: (tx, work) => writeInCallers(tx, home, work),
      end: endTransaction,
    }),
    async close() {
      await writer.close()
      transactions.close()
    },
  }
}

/** Writes in a separate thread: no commit blocks the caller, but callers' transactions cannot take part. */
export function writeInThread(location: Location, meter?: Meter): Writing {
  const thread = new WriterThread(location, { meter: meter && createWriteQueueMeter(meter, false) })
  const refuse = () => {
    throw new SignalboxError(
      'transaction_unsupported',
      'This SQLite store writes in a separate thread, so it cannot take part in a transaction. Open it without `thread: true`.',
    )
  }
  return {
    writer: thread,
    watch: thread,
    transactionsAt: () => ({ transact: refuse, transactAll: refuse, join: refuse, end: () => undefined }),
    close: () => thread.close(),
  }
}
