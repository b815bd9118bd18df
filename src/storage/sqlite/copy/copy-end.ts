import { existsSync } from 'node:fs'
import type { SQLInputValue } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type CopyBook,
  type CopyEnd,
  type CopyLook,
  type CopyStep,
  type LiveLease,
  takenByAnother,
} from '../../copy-end.ts'
import { writtenShape } from '../../copy-shape.ts'
import { type CopyNumbers, type CopyRow, type CopyTable, copyTables } from '../../copy-tables.ts'
import { copyMark } from '../../migration-plan.ts'
import { type Connection, openWriter, parseLocation } from '../connection/connection.ts'
import { explain, isBusy } from '../connection/failures.ts'
import { readLiveLeases, SqliteLook } from './copy-look.ts'
import { besideLines, sqliteShapes } from './copy-shapes.ts'

/** A SQLite file as one end of a copy. Nothing is opened before it is asked for, so that no file is made by looking. */
export function openSqliteCopyEnd(url: string): CopyEnd {
  return new SqliteCopyEnd(url)
}

/** How long others may have the file before the copy gives up. */
const busyMs = 10_000

class SqliteCopyEnd implements CopyEnd {
  readonly #location: ReturnType<typeof parseLocation>
  #connection: Connection | undefined

  constructor(url: string) {
    this.#location = parseLocation(url)
  }

  async storeId(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('store_id') : undefined
  }

  async schema(): Promise<number> {
    if (!(await this.#hasTable('signalbox_migration'))) return 0
    return this.#do(
      (db) =>
        db.get<{ number: number }>(
          'SELECT coalesce(max(number), 0) AS number FROM signalbox_migration WHERE number < ?1',
          copyMark,
        )!.number,
    )
  }

  liveLeases(): Promise<readonly LiveLease[]> {
    return this.#do(readLiveLeases)
  }

  runningNamespaces(): Promise<readonly string[]> {
    return this.#do((db) =>
      db
        .all<{ namespace: string }>(`SELECT DISTINCT namespace FROM job_queue WHERE state = 'running'`)
        .map(({ namespace }) => namespace),
    )
  }

  /** Here a request to cancel is of one lease, and void after it. */
  async unwantedJobs(): Promise<readonly never[]> {
    return []
  }

  async look(): Promise<CopyLook> {
    return this.#do(() => {
      const connection = openWriter(this.#location)
      connection.db.exec('PRAGMA query_only = ON')
      connection.db.exec('BEGIN')
      return new SqliteLook(connection)
    })
  }

  async firstFilled(): Promise<string | undefined> {
    for (const table of copyTables) {
      const { table: name } = writtenShape(table, sqliteShapes[table.name])
      if (!(await this.#hasTable(name))) continue
      const isFilled = await this.#do((db) => db.get(`SELECT 1 FROM ${name} LIMIT 1`) !== undefined)
      if (isFilled) return name
    }
    return undefined
  }

  async book(): Promise<CopyBook | undefined> {
    if (!(await this.#hasTable('signalbox_migration'))) return undefined
    return this.#do((db) => {
      const mark = db.get('SELECT 1 FROM signalbox_migration WHERE number = ?1', copyMark)
      const from = db.get<{ value: string }>(`SELECT value FROM signalbox_meta WHERE key = 'copy_from'`)
      if (mark === undefined || from === undefined) return undefined
      const rows = db.all<{ name: string; position: string | null; count: number; isDone: number }>(
        'SELECT name, position, count, is_done AS isDone FROM copy_progress',
      )
      const tables = rows.map(
        ({ name, position, count, isDone }) =>
          [
            name,
            { position: position === null ? null : JSON.parse(position), count, isDone: isDone === 1 },
          ] as const,
      )
      return { from: from.value, tables: new Map(tables) }
    })
  }

  async copiedFrom(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('copied_from') : undefined
  }

  begin(from: string): Promise<void> {
    return this.#transact((db) => {
      if (db.get('SELECT 1 FROM signalbox_migration WHERE number = ?1', copyMark)) throw takenByAnother()
      db.run(`CREATE TABLE IF NOT EXISTS copy_progress (
        name TEXT NOT NULL PRIMARY KEY, position TEXT, count INTEGER NOT NULL, is_done INTEGER NOT NULL) STRICT`)
      db.run('DELETE FROM copy_progress')
      for (const { name } of copyTables)
        db.run('INSERT INTO copy_progress (name, count, is_done) VALUES (?1, 0, 0)', name)
      putMeta(db, 'copy_from', from)
      db.run(
        `INSERT INTO signalbox_migration (number, name, applied_at) VALUES (?1, 'copy', unixepoch() * 1000)`,
        copyMark,
      )
    })
  }

  write(table: CopyTable, rows: readonly CopyRow[], step: CopyStep): Promise<void> {
    const shape = writtenShape(table, sqliteShapes[table.name])
    const isBeside = besideLines.includes(table.name)
    const insert = isBeside ? insertBeside(shape) : insertPlain(shape)
    return this.#transact((db) => {
      keepStep(db, table, step)
      const statement = db.prepare(insert)
      for (const row of rows) {
        const values = shape.valuesOf(row, step.numbers)
        statement.run(...((isBeside ? [...values, ...row.slice(0, 3)] : values) as SQLInputValue[]))
      }
    })
  }

  clear(table: CopyTable): Promise<void> {
    const { table: name } = writtenShape(table, sqliteShapes[table.name])
    return this.#transact((db) => {
      db.run(`DELETE FROM ${name}`)
      db.run('UPDATE copy_progress SET position = NULL, count = 0, is_done = 0 WHERE name = ?1', table.name)
    })
  }

  raise({ leaseNo, lockToken }: CopyNumbers): Promise<void> {
    return this.#transact((db) => {
      // Nearly always all of them have it already.
      db.run('UPDATE job_queue SET lease_no = ?1 WHERE lease_no < ?1', leaseNo)
      db.run('UPDATE job_history SET lease_no = ?1 WHERE lease_no < ?1', leaseNo)
      db.run(
        `INSERT INTO lock_shard (shard, last_token) VALUES (0, ?1)
         ON CONFLICT (shard) DO UPDATE SET last_token = max(last_token, excluded.last_token)`,
        lockToken,
      )
    })
  }

  finish(from: string): Promise<void> {
    return this.#transact((db) => {
      db.run(`UPDATE lock_queue SET outcome_count =
        (SELECT count(*) FROM lock_outcome o WHERE o.queue_id = lock_queue.queue_id)`)
      // Whoever opens the file first finds leases of another boot, and gives every waiter its time again.
      db.run(`DELETE FROM signalbox_meta WHERE key IN ('boot_id', 'copy_from')`)
      putMeta(db, 'copied_from', from)
      db.run('DELETE FROM signalbox_migration WHERE number = ?1', copyMark)
      db.run('DROP TABLE copy_progress')
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection?.close()
    this.#connection = undefined
  }

  async #hasTable(name: string): Promise<boolean> {
    if (!existsSync(this.#location.path)) return false
    return this.#do(
      (db) => db.get(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1`, name) !== undefined,
    )
  }

  #meta(key: string): Promise<string | undefined> {
    return this.#do(
      (db) => db.get<{ value: string }>('SELECT value FROM signalbox_meta WHERE key = ?1', key)?.value,
    )
  }

  #transact(work: (db: Connection) => void): Promise<void> {
    return this.#do((db) => {
      db.begin()
      try {
        work(db)
        db.commit()
      } catch (error) {
        db.rollback()
        throw error
      }
    })
  }

  /** Tries again while somebody else has the file. */
  async #do<Answer>(work: (db: Connection) => Answer): Promise<Answer> {
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

type Shape = ReturnType<typeof writtenShape>

function insertPlain({ table, columns }: Shape): string {
  return `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`
}

/** The wait queue that a row belongs to is found by its names, which are the row's first three values. */
function insertBeside({ table, columns }: Shape): string {
  return `INSERT INTO ${table} (${columns.join(', ')}, queue_id)
    SELECT ${columns.map(() => '?').join(', ')}, queue_id FROM lock_queue
    WHERE namespace = ? AND operation = ? AND resource = ?`
}

function keepStep(db: Connection, { name }: CopyTable, step: CopyStep): void {
  const changed = db.run(
    `UPDATE copy_progress SET position = ?2, count = ?3, is_done = ?4
     WHERE name = ?1 AND count = ?5 AND is_done = 0`,
    name,
    step.position === null ? null : JSON.stringify(step.position),
    step.count,
    Number(step.isDone),
    step.countBefore,
  )
  if (changed !== 1) throw takenByAnother()
}

function putMeta(db: Connection, key: string, value: string): void {
  db.run(
    `INSERT INTO signalbox_meta (key, value) VALUES (?1, ?2)
     ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    key,
    value,
  )
}
