import { SignalboxError } from '../../../core/errors.ts'
import type { Meter } from '../../../core/meter.ts'
import { endTransaction, type Home, writeInCallers } from '../connection/caller-transaction.ts'
import { type Connection, type Location, openWriter } from '../connection/connection.ts'
import { DataVersion, type Watch } from '../connection/data-version.ts'
import type { Reader } from '../connection/reader.ts'
import { Transactions } from '../connection/transact.ts'
import type { SqliteTransactions } from '../jobs/jobs.ts'
import { Gate } from './write-queue.ts'
import { createGateMeter } from './write-queue-meter.ts'
import { createGateWriter, type Writer } from './writer.ts'
import { WriterThread } from './writer-thread.ts'

/** Where a store's writes are made, and what follows from that. */
export interface Writing {
  readonly writer: Writer
  /** Notices other processes' commits, and none of our own. */
  readonly watch: Watch
  /** For a store whose tables are there, and which is known by now. */
  transactionsAt(home: Home): SqliteTransactions
  close(): Promise<void>
}

/** On the caller's thread: each commit stops it, and it can share its transactions with the caller. */
export function writeHere(location: Location, reader: Reader, meter?: Meter): Writing {
  const watch = new DataVersion(reader)
  const began = (connection: Connection) => watch.began(connection)
  const open = () => openWriter(location)
  const gate = new Gate({ open, began, meter: meter && createGateMeter(meter, true) })
  const writer = createGateWriter(gate)
  const transactions = new Transactions({ gate, open, began })
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

/** In a thread of its own: no commit stops the caller, and no transaction can be shared with it. */
export function writeInThread(location: Location, meter?: Meter): Writing {
  const thread = new WriterThread(location, { meter: meter && createGateMeter(meter, false) })
  const refuse = () => {
    throw new SignalboxError(
      'transaction_unsupported',
      'This SQLite store writes in a thread of its own, where no transaction can be shared with it. Open it without `thread: true` for that.',
    )
  }
  return {
    writer: thread,
    watch: thread,
    transactionsAt: () => ({ transact: refuse, transactAll: refuse, join: refuse, end: () => undefined }),
    close: () => thread.close(),
  }
}
