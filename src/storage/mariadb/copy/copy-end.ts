import { type Connection, createConnection } from 'mysql2/promise'
import {
  type CopyBook,
  type CopyEnd,
  type CopyLook,
  type CopyStep,
  type LiveLease,
  takenByAnother,
} from '../../copy-end.ts'
import { writtenShape } from '../../copy-shape.ts'
import { type Cell, type CopyNumbers, type CopyRow, type CopyTable, copyTables } from '../../copy-tables.ts'
import { copyMark } from '../../migration-plan.ts'
import { nowMs } from '../connection/clock.ts'
import { ownSession, type Place, parsePlace } from '../connection/connection.ts'
import { toStoreError } from '../connection/failures.ts'
import { leases, MariadbLook } from './copy-look.ts'
import { mariadbShapes } from './copy-shapes.ts'

/** A MariaDB database as one end of a copy. */
export async function openMariadbCopyEnd(url: string): Promise<CopyEnd> {
  const place = parsePlace(url)
  const connection = await connect(place)
  const [[row]] = (await connection.query('SELECT @@max_allowed_packet AS bytes')) as unknown as [
    [{ bytes: string }],
  ]
  return new MariadbCopyEnd(place, connection, Number(row.bytes))
}

/** A copy may take its time over a statement, and over reading an answer. */
const patience = `SET SESSION max_statement_time = 0, idle_transaction_timeout = 0, innodb_lock_wait_timeout = 30,
  net_write_timeout = 3600, net_read_timeout = 3600`

async function connect({ options }: Place): Promise<Connection> {
  let connection: Connection | undefined
  try {
    connection = await createConnection({
      ...options,
      // Every value comes as text.
      typeCast: (field) => (field as unknown as { string(): string | null }).string(),
    })
    connection.on('error', () => undefined)
    for (const statement of [...ownSession, patience]) await connection.query(statement)
    return connection
  } catch (error) {
    connection?.destroy()
    throw toStoreError(error, 'copy')
  }
}

class MariadbCopyEnd implements CopyEnd {
  readonly #place: Place
  readonly #connection: Connection
  /** How many characters an insert may have: each may take four bytes, and more when it is quoted. */
  readonly #insertChars: number

  constructor(place: Place, connection: Connection, packetBytes: number) {
    this.#place = place
    this.#connection = connection
    this.#insertChars = Math.min(1_000_000, Math.floor(packetBytes / 6))
  }

  async storeId(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('store_id') : undefined
  }

  async schema(): Promise<number> {
    if (!(await this.#hasTable('signalbox_migration'))) return 0
    const [row] = await this.#rows<{ number: string }>(
      'SELECT COALESCE(MAX(number), 0) AS number FROM signalbox_migration WHERE number < ?',
      [copyMark],
    )
    return Number(row!.number)
  }

  async liveLeases(): Promise<readonly LiveLease[]> {
    const rows = await this.#rows<{ of: string; holder: string; ends_at: string; rest_ms: string }>(leases)
    return rows.map(({ of, holder, ends_at, rest_ms }) => ({
      of,
      holder,
      endsAt: Number(ends_at),
      restMs: Number(rest_ms),
    }))
  }

  async runningNamespaces(): Promise<readonly string[]> {
    const rows = await this.#rows<{ namespace: string }>(
      `SELECT DISTINCT namespace FROM job_queue WHERE state = 'running'`,
    )
    return rows.map(({ namespace }) => namespace)
  }

  unwantedJobs(): Promise<readonly { readonly namespace: string; readonly id: string }[]> {
    return this.#rows(
      `SELECT q.namespace, q.id FROM job_cancel c
       JOIN job_queue q ON q.namespace = c.namespace AND q.id = c.job_id WHERE q.state <> 'running'`,
    )
  }

  async look(): Promise<CopyLook> {
    const connection = await connect(this.#place)
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    await connection.query('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
    return new MariadbLook(connection)
  }

  async firstFilled(): Promise<string | undefined> {
    for (const table of copyTables) {
      const { table: name } = writtenShape(table, mariadbShapes[table.name])
      if (!(await this.#hasTable(name))) continue
      if ((await this.#rows(`SELECT 1 FROM ${name} LIMIT 1`)).length > 0) return name
    }
    return undefined
  }

  async book(): Promise<CopyBook | undefined> {
    if (!(await this.#hasTable('copy_progress'))) return undefined
    const marks = await this.#rows('SELECT 1 FROM signalbox_migration WHERE number = ?', [copyMark])
    const from = await this.#meta('copy_from')
    if (marks.length === 0 || from === undefined) return undefined
    const rows = await this.#rows<{ name: string; position: string | null; count: string; is_done: string }>(
      'SELECT name, position, count, is_done FROM copy_progress',
    )
    return {
      from,
      tables: new Map(
        rows.map(({ name, position, count, is_done }) => [
          name,
          {
            position: position === null ? null : JSON.parse(position),
            count: Number(count),
            isDone: is_done === '1',
          },
        ]),
      ),
    }
  }

  async copiedFrom(): Promise<string | undefined> {
    return (await this.#hasTable('signalbox_meta')) ? this.#meta('copied_from') : undefined
  }

  async begin(from: string): Promise<void> {
    // A table is made in a transaction of its own here; the mark comes after it.
    await this.#rows(`CREATE TABLE IF NOT EXISTS copy_progress (
      name VARCHAR(64) NOT NULL PRIMARY KEY, position LONGTEXT NULL, count BIGINT NOT NULL, is_done BOOLEAN NOT NULL
    ) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`)
    await this.#transact(async () => {
      await this.#rows('DELETE FROM copy_progress')
      await this.#insert(
        'copy_progress',
        ['name', 'count', 'is_done'],
        copyTables.map(({ name }) => [name, '0', '0']),
      )
      await this.#putMeta('copy_from', from)
      const { affectedRows } = (await this.#rows(
        `INSERT IGNORE INTO signalbox_migration (number, name, applied_at) VALUES (?, 'copy', ${nowMs})`,
        [copyMark],
      )) as unknown as { affectedRows: number }
      if (affectedRows !== 1) throw takenByAnother()
    })
  }

  write(table: CopyTable, rows: readonly CopyRow[], step: CopyStep): Promise<void> {
    const shape = writtenShape(table, mariadbShapes[table.name])
    return this.#transact(async () => {
      const position = step.position === null ? null : JSON.stringify(step.position)
      const { affectedRows } = (await this.#rows(
        `UPDATE copy_progress SET position = ?, count = ?, is_done = ?
         WHERE name = ? AND count = ? AND NOT is_done`,
        [position, step.count, step.isDone, table.name, step.countBefore],
      )) as unknown as { affectedRows: number }
      if (affectedRows !== 1) throw takenByAnother()
      await this.#insert(
        shape.table,
        shape.columns,
        rows.map((row) => shape.valuesOf(row, step.numbers)),
      )
      for (const { table: name, columns, row } of shape.also) {
        const values = rows.flatMap((one) => {
          const found = row(shape.cellsOf(one))
          return found === null ? [] : [found]
        })
        const [first] = columns
        const names = columns.map((column) => column.name)
        // Ends that were told to many share a row.
        await this.#insert(name, names, values, `ON DUPLICATE KEY UPDATE ${first!.name} = ${first!.name}`)
      }
    })
  }

  /** In as few statements as packets allow. */
  async #insert(
    table: string,
    columns: readonly string[],
    rows: readonly (readonly Cell[])[],
    onDuplicate = '',
  ): Promise<void> {
    const begin = `INSERT INTO ${table} (${columns.join(', ')}) VALUES `
    let part: string[] = []
    let chars = 0
    const send = async () => {
      if (part.length > 0) await this.#rows(`${begin}${part.join(',')} ${onDuplicate}`)
      part = []
      chars = 0
    }
    for (const row of rows) {
      const text = `(${row.map((cell) => this.#connection.escape(cell)).join(',')})`
      if (chars + text.length > this.#insertChars) await send()
      part.push(text)
      chars += text.length
    }
    await send()
  }

  clear(table: CopyTable): Promise<void> {
    const shape = writtenShape(table, mariadbShapes[table.name])
    return this.#transact(async () => {
      for (const name of [shape.table, ...shape.also.map((also) => also.table)])
        await this.#rows(`DELETE FROM ${name}`)
      await this.#rows(
        'UPDATE copy_progress SET position = NULL, count = 0, is_done = FALSE WHERE name = ?',
        [table.name],
      )
    })
  }

  raise({ leaseNo, lockToken }: CopyNumbers): Promise<void> {
    return this.#transact(async () => {
      await this.#rows('UPDATE job_queue SET lease_no = ? WHERE lease_no < ?', [leaseNo, leaseNo])
      await this.#rows('UPDATE job_history SET lease_no = ? WHERE lease_no < ?', [leaseNo, leaseNo])
      await this.#rows('UPDATE lock_shard SET last_token = GREATEST(last_token, ?)', [lockToken])
    })
  }

  async finish(from: string): Promise<void> {
    await this.#transact(async () => {
      // As after a boot: holders have their whole time again, and those who wait the time to come back.
      await this.#rows(
        `UPDATE lock_queue SET lease_ends_at = ${nowMs} + holder_ttl_ms,
           due_at = ${nowMs} + CASE WHEN holder_node IS NULL THEN 0 WHEN take_up_by IS NULL THEN holder_ttl_ms
             ELSE 10000 END,
           take_up_by = CASE WHEN take_up_by IS NOT NULL THEN ${nowMs} + 10000 END`,
      )
      await this.#rows(
        `UPDATE lock_waiter SET lease_ends_at = ${nowMs} + 30000, due_at = ${nowMs} + 30000,
           deadline_at = CASE WHEN deadline_at IS NOT NULL THEN ${nowMs} + 30000 END`,
      )
      await this.#rows(`UPDATE lock_outcome SET kept_until = ${nowMs} + 60000`)
      await this.#rows(`UPDATE lock_result SET kept_until = ${nowMs} + 60000`)
      await this.#rows(`DELETE FROM signalbox_meta WHERE name = 'copy_from'`)
      await this.#putMeta('copied_from', from)
      await this.#rows('DELETE FROM signalbox_migration WHERE number = ?', [copyMark])
    })
    // In a transaction of its own; killed before it, an empty book is left, which the next copy takes.
    await this.#rows('DROP TABLE IF EXISTS copy_progress')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.end().catch(() => undefined)
  }

  async #hasTable(name: string): Promise<boolean> {
    const rows = await this.#rows(
      'SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?',
      [name],
    )
    return rows.length > 0
  }

  async #meta(name: string): Promise<string | undefined> {
    const [row] = await this.#rows<{ value: string }>('SELECT value FROM signalbox_meta WHERE name = ?', [
      name,
    ])
    return row?.value
  }

  async #putMeta(name: string, value: string): Promise<void> {
    await this.#rows(
      'INSERT INTO signalbox_meta (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)',
      [name, value],
    )
  }

  async #transact(work: () => Promise<void>): Promise<void> {
    await this.#rows('START TRANSACTION')
    try {
      await work()
      await this.#rows('COMMIT')
    } catch (error) {
      await this.#connection.query('ROLLBACK').catch(() => undefined)
      throw error
    }
  }

  async #rows<Row extends object>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    try {
      const [rows] = await this.#connection.query(sql, values as unknown[])
      return rows as unknown as Row[]
    } catch (error) {
      throw toStoreError(error, 'copy')
    }
  }
}
