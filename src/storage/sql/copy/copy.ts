import { SignalboxError } from '../../../core/errors.ts'
import { type CopyNumbers, type CopyRow, type CopyTable, copyTables } from '../../copy-tables.ts'
import { copyMark } from '../../migration-plan.ts'
import type { CopyDatabase, CopyDialect, CopyValue } from './copy-database.ts'
import { readShape, type WrittenShape, writtenShape } from './copy-shapes.ts'

/**
 * One end of a copy, on any SQL engine. It reads or writes rows in the engine-neutral form of copy-tables.ts, without
 * the engine's stores. In all texts `@name` is a table and `?` a value.
 *
 * While a copy fills a database, `signalbox_migration` has a row with the number `copyMark`, so no process opens it as
 * a store. `copy_progress` records how far the copy of each table is.
 */
export class CopyEnd implements AsyncDisposable {
  readonly #database: CopyDatabase
  readonly #dialect: CopyDialect

  constructor(database: CopyDatabase) {
    this.#database = database
    this.#dialect = database.dialect
  }

  /** The unique id of this store. Undefined: the database has no schema. */
  async storeId(): Promise<string | undefined> {
    return (await this.#database.hasTable('signalbox_meta')) ? this.#meta('store_id') : undefined
  }

  /** The schema's number, without the mark of a copy. 0: the database has no schema. */
  async schema(): Promise<number> {
    if (!(await this.#database.hasTable('signalbox_migration'))) return 0
    const [row] = await this.#database.rows<{ number: CopyValue }>(
      `SELECT coalesce(max(number), 0) AS number FROM @signalbox_migration WHERE number < ${copyMark}`,
    )
    return Number(row!.number)
  }

  /** Up to 20 leases that are live now. Those that end last come first. */
  async liveLeases(): Promise<readonly LiveLease[]> {
    const { now, lockNow } = await this.#database.clocks()
    const rows = await this.#database.rows<Record<'subject' | 'holder' | 'ends_at' | 'rest_ms', string>>(
      liveLeases(now, lockNow),
    )
    return rows.map(({ subject, holder, ends_at, rest_ms }) => ({
      of: subject,
      holder,
      endsAt: Number(ends_at),
      restMs: Number(rest_ms),
    }))
  }

  /** The namespaces with attempts in progress, also of dead workers. */
  async runningNamespaces(): Promise<readonly string[]> {
    const rows = await this.#database.rows<{ namespace: string }>(
      `SELECT DISTINCT namespace FROM @job_queue WHERE state = 'running'`,
    )
    return rows.map(({ namespace }) => namespace)
  }

  /** Jobs that do not run, but have a cancellation request: the next claim would cancel them. */
  async unwantedJobs(): Promise<readonly { readonly namespace: string; readonly id: string }[]> {
    if (!this.#dialect.cancelsOutliveLeases) return []
    return this.#database.rows(
      `SELECT q.namespace, q.id FROM @job_cancel c
       JOIN @job_queue q ON q.namespace = c.namespace AND q.id = c.job_id WHERE q.state <> 'running'`,
    )
  }

  /** Opens a snapshot of the database: all reads from it see the same moment. */
  async look(): Promise<CopySnapshot> {
    return new CopySnapshot(await this.#database.openSnapshot())
  }

  /** The name of a table that has rows and that a copy would write, if any. A missing table counts as empty. */
  async firstFilled(): Promise<string | undefined> {
    for (const { name } of copyTables) {
      if (!(await this.#database.hasTable(name))) continue
      if ((await this.#database.rows(`SELECT 1 AS found FROM @${name} LIMIT 1`)).length > 0) return name
    }
    return undefined
  }

  /** The unfinished copy into this database, if any. */
  async unfinished(): Promise<UnfinishedCopy | undefined> {
    if (!(await this.#database.hasTable('copy_progress'))) return undefined
    const marks = await this.#database.rows(
      `SELECT 1 AS found FROM @signalbox_migration WHERE number = ${copyMark}`,
    )
    const from = await this.#meta('copy_from')
    if (marks.length === 0 || from === undefined) return undefined
    const rows = await this.#database.rows<ProgressRow>(
      'SELECT name, position, count, is_done FROM @copy_progress',
    )
    const tables = rows.map(({ name, position, count, is_done }) => {
      const isDone = Number(is_done) === 1
      return [
        name,
        { position: position === null ? null : JSON.parse(position), count: Number(count), isDone },
      ] as const
    })
    return { from, tables: new Map(tables) }
  }

  /** The source of a finished copy. */
  async copiedFrom(): Promise<string | undefined> {
    return (await this.#database.hasTable('signalbox_meta')) ? this.#meta('copied_from') : undefined
  }

  /** Begins a copy: from now on no program can open this database as a store. */
  async begin(from: string): Promise<void> {
    const { tableOptions, appliedAt, keepExisting } = this.#dialect
    // MariaDB commits when it creates a table, so this comes first. Without the mark the table has no meaning.
    await this.#database.run(`CREATE TABLE IF NOT EXISTS @copy_progress (
      name VARCHAR(64) NOT NULL PRIMARY KEY, position TEXT, count BIGINT NOT NULL, is_done INTEGER NOT NULL
    ) ${tableOptions}`)
    await this.#database.transact(async () => {
      const marked = await this.#database.run(
        `INSERT INTO @signalbox_migration (number, name, applied_at) VALUES (${copyMark}, 'copy', ${appliedAt})
         ${keepExisting('number')}`,
      )
      if (marked !== 1) throw takenByAnother()
      await this.#database.run('DELETE FROM @copy_progress')
      await this.#database.insert({
        table: 'copy_progress',
        columns: ['name', 'count', 'is_done'],
        rows: copyTables.map(({ name }) => [name, '0', '0']),
      })
      await this.#putMeta('copy_from', from)
    })
  }

  /** Writes rows and the progress in one transaction. */
  write(table: CopyTable, rows: readonly CopyRow[], step: CopyStep): Promise<void> {
    const { columns, places, valuesOf, also, cellsOf } = this.#written(table)
    const position = step.position === null ? null : JSON.stringify(step.position)
    return this.#database.transact(async () => {
      const changed = await this.#database.run(
        `UPDATE @copy_progress SET position = ?, count = ?, is_done = ? WHERE name = ? AND count = ? AND is_done = 0`,
        [position, step.count, Number(step.isDone), table.name, step.countBefore],
      )
      if (changed !== 1) throw takenByAnother()
      const values = rows.map((row) => valuesOf(row, step.numbers))
      await this.#database.insert({ table: table.name, columns, places, rows: values })
      for (const { table: name, columns: names, row } of also) {
        const found = rows.map((one) => row(cellsOf(one))).filter((one) => one !== null)
        await this.#database.insert({ table: name, columns: names, rows: found, keepsExisting: true })
      }
    })
  }

  /** Deletes all rows of a table and starts its copy again. */
  clear(table: CopyTable): Promise<void> {
    const names = [table.name, ...this.#written(table).also.map((also) => also.table)]
    return this.#database.transact(async () => {
      for (const name of names) await this.#database.run(`DELETE FROM @${name}`)
      await this.#database.run(
        'UPDATE @copy_progress SET position = NULL, count = 0, is_done = 0 WHERE name = ?',
        [table.name],
      )
    })
  }

  /** Makes sure that new numbers will be greater than these. */
  raise({ leaseNo, lockToken }: CopyNumbers): Promise<void> {
    const { greatest, keepExisting } = this.#dialect
    return this.#database.transact(async () => {
      for (const name of ['job_queue', 'job_history'])
        await this.#database.run(`UPDATE @${name} SET lease_no = ${leaseNo} WHERE lease_no < ${leaseNo}`)
      await this.#database.run(
        `INSERT INTO @lock_shard (shard, last_token) VALUES (0, 0) ${keepExisting('shard')}`,
      )
      await this.#database.run(
        `UPDATE @lock_shard SET last_token = ${greatest('last_token', String(lockToken))}`,
      )
    })
  }

  /** Ends the copy: from now on the database is a store. */
  async finish(from: string): Promise<void> {
    await this.#database.transact(async () => {
      for (const statement of this.#dialect.restartLocks) await this.#database.run(statement)
      await this.#removeMeta('copy_from')
      await this.#putMeta('copied_from', from)
      await this.#database.run(`DELETE FROM @signalbox_migration WHERE number = ${copyMark}`)
    })
    // If the process is killed before this, the table stays. The next copy empties it.
    await this.#database.run('DROP TABLE IF EXISTS @copy_progress')
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#database.close()
  }

  #written(table: CopyTable): WrittenShape {
    return writtenShape(table, this.#dialect.shapes[table.name])
  }

  async #meta(name: string): Promise<string | undefined> {
    const sql = `SELECT value FROM @signalbox_meta WHERE ${this.#dialect.metaKey} = ?`
    const [row] = await this.#database.rows<{ value: string }>(sql, [name])
    return row?.value
  }

  async #putMeta(name: string, value: string): Promise<void> {
    await this.#removeMeta(name)
    const sql = `INSERT INTO @signalbox_meta (${this.#dialect.metaKey}, value) VALUES (?, ?)`
    await this.#database.run(sql, [name, value])
  }

  async #removeMeta(name: string): Promise<void> {
    await this.#database.run(`DELETE FROM @signalbox_meta WHERE ${this.#dialect.metaKey} = ?`, [name])
  }
}

/** A snapshot of a database. */
export class CopySnapshot implements AsyncDisposable {
  readonly #snapshot: CopyDatabase

  constructor(snapshot: CopyDatabase) {
    this.#snapshot = snapshot
  }

  async count(table: CopyTable): Promise<number> {
    const { from, where } = this.#shape(table)
    const sql = `SELECT count(*) AS count FROM ${from} WHERE ${where}`
    const [row] = await this.#snapshot.rows<{ count: CopyValue }>(sql)
    return Number(row!.count)
  }

  /** Reads the rows after that key, in the order of the table's key, in pages of up to `pageRows` rows. */
  read(
    table: CopyTable,
    after: readonly string[] | null,
    pageRows: number,
  ): AsyncIterable<readonly CopyRow[]> {
    const { columns, key, from, where } = this.#shape(table)
    const pairs = (after ?? []).map((value, nr): readonly [string, string] => {
      const { sql, isWhole } = key[nr]!
      return [sql, isWhole ? `${BigInt(value)}` : this.#snapshot.quote(value)]
    })
    const behind = after === null ? '' : `AND (${this.#snapshot.dialect.isAfter(...pairs)})`
    const order = key.map(({ sql }) => sql).join(', ')
    return this.#snapshot.pages(
      `SELECT ${columns.join(', ')} FROM ${from} WHERE ${where}`,
      `${behind} ORDER BY ${order}`,
      pageRows,
    )
  }

  async numbers(): Promise<CopyNumbers> {
    const [row] = await this.#snapshot.rows<Record<'queued' | 'ended' | 'given' | 'held', CopyValue>>(
      `SELECT (SELECT max(lease_no) FROM @job_queue) AS queued, (SELECT max(lease_no) FROM @job_history) AS ended,
         (SELECT max(last_token) FROM @lock_shard) AS given, (SELECT max(token) FROM @lock_queue) AS held`,
    )
    const { queued, ended, given, held } = row!
    return {
      leaseNo: Math.max(Number(queued), Number(ended)),
      lockToken: Math.max(Number(given), Number(held)),
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#snapshot.close()
  }

  #shape(table: CopyTable): ReturnType<typeof readShape> {
    const { shapes, truth } = this.#snapshot.dialect
    return readShape(table, shapes[table.name], truth)
  }
}

/** A live lease in the source. */
export interface LiveLease {
  /** The owner of the lease: "job mail/01k9…", "lock deploy eu-1", "server 01k9…". */
  readonly of: string
  readonly holder: string
  /** By this database's own clock. It grows when the lease is renewed. */
  readonly endsAt: number
  readonly restMs: number
}

/** An unfinished copy. */
export interface UnfinishedCopy {
  /** The id of the source store. */
  readonly from: string
  readonly tables: ReadonlyMap<string, CopyProgress>
}

interface CopyProgress {
  /** The key of the last written row. Null: no row was written. */
  readonly position: readonly string[] | null
  readonly count: number
  readonly isDone: boolean
}

/** The progress that is written together with rows. */
export interface CopyStep extends CopyProgress {
  /** The number of rows before this step. If it differs, another copy writes to this database. */
  readonly countBefore: number
  readonly numbers: CopyNumbers
}

/** The error if the stored progress differs from what this copy wrote last. */
function takenByAnother(): SignalboxError {
  return new SignalboxError(
    'copy_target_taken',
    'Another `signalbox copy` is filling this target at the same time. Let one of them do it.',
  )
}

interface ProgressRow {
  readonly name: string
  readonly position: string | null
  readonly count: CopyValue
  readonly is_done: CopyValue
}

function liveLeases(now: number, lockNow: number): string {
  return `
SELECT subject, holder, ends_at, ends_at - clock AS rest_ms FROM (
  SELECT concat('job ', queue, '/', id) AS subject, worker_id AS holder, lease_ends_at AS ends_at, ${now} AS clock
  FROM @job_queue WHERE state = 'running' AND lease_ends_at > ${now}
  UNION ALL
  SELECT concat('guard ', space, '/', guard_key), 'its claimer', ends_at, ${now}
  FROM @once_guard WHERE status = 'running' AND ends_at > ${now}
  UNION ALL
  SELECT concat('channel ', channel), 'a sender', lease_ends_at, ${now}
  FROM @monitor_channel WHERE token IS NOT NULL AND lease_ends_at > ${now}
  UNION ALL
  SELECT concat(kind, ' ', row_key), 'itself', expires_at, ${now}
  FROM @fleet_row WHERE kind IN ('server', 'node') AND doc IS NOT NULL AND expires_at > ${now}
  UNION ALL
  SELECT concat('lock ', operation, ' ', resource), holder_node, lease_ends_at, ${lockNow}
  FROM @lock_queue WHERE holder_node IS NOT NULL AND lease_ends_at > ${lockNow}
) found ORDER BY ends_at - clock DESC LIMIT 20`
}
