import { existsSync } from 'node:fs'
import type { SQLInputValue } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cell, CopyRow } from '../copy-tables.ts'
import { CopyEnd } from '../sql/copy/copy.ts'
import {
  type CopyDatabase,
  type CopyDialect,
  type CopyInsert,
  type CopyValue,
  PageBuilder,
} from '../sql/copy/copy-database.ts'
import { type CopyShapes, leaseNoCell, queuesByNumber, sharedShapes } from '../sql/copy/copy-shapes.ts'
import { limitKeyOf } from '../sql/limit-plan.ts'
import { type Connection, now, openWriter, parseLocation, readNow } from './connection/connection.ts'
import { explain, isBusy } from './connection/failures.ts'
import { sqliteDialect } from './dialect.ts'
import { readBootId, readLeaseClock } from './locks/lease-clock.ts'

/** How SQLite stores the rows of a copy. */
export const sqliteShapes: CopyShapes = {
  ...sharedShapes,
  ...queuesByNumber,
  job_queue: { more: { limit_key: (cell) => limitKeyOf(cell('meta')), lease_no: leaseNoCell } },
  job_history: { more: { lease_no: leaseNoCell, settled_tokens: () => '' } },
}

/** A SQLite file as one end of a copy. The file is opened at first use, so that a check creates no file. */
export function openSqliteCopyEnd(url: string): CopyEnd {
  return new CopyEnd(new SqliteCopyDatabase(parseLocation(url)))
}

/** How long the copy waits for other processes before it fails. */
const busyMs = 10_000

const dialect: CopyDialect = {
  ...sqliteDialect,
  shapes: sqliteShapes,
  metaKey: 'key',
  appliedAt: now,
  tableOptions: '',
  truth: (sql) => sql,
  // On SQLite a cancellation request belongs to one lease, and is void after it.
  cancelsOutliveLeases: false,
  restartLocks: [
    `UPDATE @lock_queue SET outcome_count =
       (SELECT count(*) FROM lock_outcome o WHERE o.queue_id = lock_queue.queue_id)`,
    // The first process that opens the file finds leases of another boot, and starts them again.
    `DELETE FROM @signalbox_meta WHERE key = 'boot_id'`,
  ],
}

class SqliteCopyDatabase implements CopyDatabase {
  readonly dialect = dialect
  readonly #location: ReturnType<typeof parseLocation>
  #connection: Connection | undefined

  constructor(location: ReturnType<typeof parseLocation>, connection?: Connection) {
    this.#location = location
    this.#connection = connection
  }

  rows<Row extends object>(sql: string, values: readonly CopyValue[] = []): Promise<readonly Row[]> {
    return this.#retry((db) => db.all<Row>(place(sql), ...values))
  }

  run(sql: string, values: readonly CopyValue[] = []): Promise<number> {
    return this.#retry((db) => db.run(place(sql), ...values))
  }

  async transact(work: () => Promise<void>): Promise<void> {
    await this.#retry((db) => db.begin())
    const db = this.#connection!
    try {
      await work()
      db.commit()
    } catch (error) {
      db.rollback()
      throw explain(error)
    }
  }

  async insert({ table, columns, places = columns.map(() => '?'), rows }: CopyInsert): Promise<void> {
    const statement = this.#connection!.prepare(
      `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places.join(', ')})`,
    )
    for (const row of rows) statement.run(...(row as SQLInputValue[]))
  }

  async *pages(select: string, behind: string, pageRows: number): AsyncGenerator<readonly CopyRow[]> {
    const statement = this.#connection!.db.prepare(`${place(select)} ${behind}`)
    statement.setReturnArrays(true)
    const pages = new PageBuilder(pageRows)
    for (const row of statement.iterate() as unknown as IterableIterator<(Cell | number)[]>) {
      for (let i = 0; i < row.length; i++) if (typeof row[i] === 'number') row[i] = String(row[i])
      const page = pages.add(row as CopyRow)
      if (page) yield page
    }
    const rest = pages.take()
    if (rest.length > 0) yield rest
  }

  async hasTable(name: string): Promise<boolean> {
    if (!existsSync(this.#location.path)) return false
    const sql = `SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = ?`
    return (await this.rows(sql, [name])).length > 0
  }

  clocks(): Promise<{ readonly now: number; readonly lockNow: number }> {
    return this.#retry((db) => {
      const boot = db.get<{ value: string }>(`SELECT value FROM signalbox_meta WHERE key = 'boot_id'`)?.value
      // No process has opened the file since an earlier boot, so none holds a lock.
      const lockNow = boot === readBootId() ? readLeaseClock(db) : Number.MAX_SAFE_INTEGER
      return { now: readNow(db), lockNow }
    })
  }

  quote(text: string): string {
    return `'${text.replaceAll("'", "''")}'`
  }

  openSnapshot(): Promise<CopyDatabase> {
    return this.#retry(() => {
      const connection = openWriter(this.#location)
      connection.db.exec('PRAGMA query_only = ON')
      connection.db.exec('BEGIN')
      return new SqliteCopyDatabase(this.#location, connection)
    })
  }

  async close(): Promise<void> {
    this.#connection?.abandon()
    this.#connection = undefined
  }

  /** Retries while another process has the file. */
  async #retry<Answer>(work: (db: Connection) => Answer): Promise<Answer> {
    const deadline = performance.now() + busyMs
    for (;;) {
      try {
        this.#connection ??= openWriter(this.#location)
        return work(this.#connection)
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw explain(error)
        await sleep(20)
      }
    }
  }
}

function place(sql: string): string {
  return sql.replaceAll('@', '')
}
