import type { Connection as PlainConnection } from 'mysql2'
import { type Connection, createConnection } from 'mysql2/promise'
import type { CopyRow } from '../copy-tables.ts'
import { CopyEnd } from '../sql/copy/copy.ts'
import {
  type CopyDatabase,
  type CopyDialect,
  type CopyInsert,
  type CopyValue,
  PageBuilder,
  restartLocksAt,
} from '../sql/copy/copy-database.ts'
import { type CopyShapes, leaseNoCell, queuesByKey, sharedShapes } from '../sql/copy/copy-shapes.ts'
import { nowMs } from './connection/clock.ts'
import { type ConnectionTarget, ownSession, parseTarget } from './connection/connection.ts'
import { toStoreError } from './connection/failures.ts'
import { createMariadbDialect } from './dialect.ts'

/** How MariaDB stores the rows of a copy, in the connection's own database. */
export const mariadbShapes: CopyShapes = {
  ...sharedShapes,
  ...queuesByKey,
  job_queue: { more: { lease_no: leaseNoCell } },
  job_history: {
    more: { lease_no: leaseNoCell },
    also: [
      {
        table: 'job_dead',
        columns: ['namespace', 'queue', 'id', 'kind'],
        row: (cell) =>
          cell('state') === 'dead' ? [cell('namespace'), cell('queue'), cell('id'), cell('kind')] : null,
      },
    ],
  },
  job_rate: {
    names: { expires_at: 'started_at' },
    from: '@job_rate t LEFT JOIN @queue_control c ON c.namespace = t.namespace AND c.queue = t.queue',
    // The time of the last start, and how long it may count.
    read: {
      expires_at: `t.started_at + 2 * GREATEST(COALESCE(JSON_VALUE(c.limits, '$.rate.perMs'), 0),
        COALESCE(JSON_VALUE(c.limits, '$.perKey.rate.perMs'), 0))`,
    },
  },
  job_attempt: { names: { release: '`release`' } },
  request_key: { names: { key: '`key`' } },
}

/** A MariaDB database as one end of a copy. */
export async function openMariadbCopyEnd(url: string): Promise<CopyEnd> {
  const target = parseTarget(url)
  const connection = await connect(target)
  const [[row]] = (await connection.query('SELECT @@max_allowed_packet AS bytes')) as unknown as [
    [{ bytes: string }],
  ]
  return new CopyEnd(new MariadbCopyDatabase(target, connection, Number(row.bytes)))
}

/** A copy may need long for a statement, and for reading an answer. */
const patience = `SET SESSION max_statement_time = 0, idle_transaction_timeout = 0, innodb_lock_wait_timeout = 30,
  net_write_timeout = 3600, net_read_timeout = 3600`

async function connect({ options }: ConnectionTarget): Promise<Connection> {
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

class MariadbCopyDatabase implements CopyDatabase {
  readonly #target: ConnectionTarget
  readonly #connection: Connection
  readonly #packetBytes: number
  readonly dialect: CopyDialect

  constructor(target: ConnectionTarget, connection: Connection, packetBytes: number) {
    this.#target = target
    this.#connection = connection
    this.#packetBytes = packetBytes
    this.dialect = {
      ...createMariadbDialect(target.database),
      shapes: mariadbShapes,
      metaKey: 'name',
      appliedAt: nowMs,
      tableOptions: 'ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin',
      truth: (sql) => sql,
      cancelsOutliveLeases: true,
      restartLocks: restartLocksAt(nowMs),
    }
  }

  async rows<Row extends object>(sql: string, values?: readonly CopyValue[]): Promise<readonly Row[]> {
    return (await this.#query(sql, values)) as readonly Row[]
  }

  async run(sql: string, values?: readonly CopyValue[]): Promise<number> {
    return ((await this.#query(sql, values)) as { readonly affectedRows: number }).affectedRows
  }

  async transact(work: () => Promise<void>): Promise<void> {
    await this.#query('START TRANSACTION')
    try {
      await work()
      await this.#query('COMMIT')
    } catch (error) {
      await this.#connection.query('ROLLBACK').catch(() => undefined)
      throw error
    }
  }

  /** Uses as few statements as packets allow. Each character may take four bytes, and more when it is escaped. */
  async insert({ table, columns, rows, keepsExisting = false }: CopyInsert): Promise<void> {
    const begin = `INSERT INTO @${table} (${columns.join(', ')}) VALUES `
    const end = keepsExisting ? this.dialect.keepExisting(columns[0]!) : ''
    const most = Math.min(1_000_000, Math.floor(this.#packetBytes / 6))
    let part: string[] = []
    let chars = 0
    const send = async () => {
      if (part.length > 0) await this.#send(`${place(begin)}${part.join(',')} ${end}`)
      part = []
      chars = 0
    }
    for (const row of rows) {
      const text = `(${row.map((cell) => this.#connection.escape(cell)).join(',')})`
      if (chars + text.length > most) await send()
      part.push(text)
      chars += text.length
    }
    await send()
  }

  async *pages(select: string, behind: string, pageRows: number): AsyncGenerator<readonly CopyRow[]> {
    // The driver's promise connection has no streams; the connection under it has.
    const stream = (this.#connection as unknown as { readonly connection: PlainConnection }).connection
      .query({ sql: `${place(select)} ${behind}`, rowsAsArray: true })
      .stream({ highWaterMark: 1_000 })
    const pages = new PageBuilder(pageRows)
    try {
      for await (const row of stream as AsyncIterable<CopyRow>) {
        const page = pages.add(row)
        if (page) yield page
      }
    } catch (error) {
      throw toStoreError(error, 'copy')
    }
    const rest = pages.take()
    if (rest.length > 0) yield rest
  }

  async hasTable(name: string): Promise<boolean> {
    const sql =
      'SELECT 1 AS found FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?'
    return (await this.rows(sql, [name])).length > 0
  }

  async clocks(): Promise<{ readonly now: number; readonly lockNow: number }> {
    const [row] = await this.rows<{ now: string }>(`SELECT ${nowMs} AS now`)
    return { now: Number(row!.now), lockNow: Number(row!.now) }
  }

  quote(text: string): string {
    return this.#connection.escape(text)
  }

  async openSnapshot(): Promise<CopyDatabase> {
    const connection = await connect(this.#target)
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    await connection.query('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
    return new MariadbCopyDatabase(this.#target, connection, this.#packetBytes)
  }

  /** Does not wait for the rest of a page that nobody reads. */
  async close(): Promise<void> {
    this.#connection.destroy()
  }

  #query(sql: string, values?: readonly CopyValue[]): Promise<unknown> {
    return this.#send(place(sql), values)
  }

  async #send(sql: string, values: readonly CopyValue[] = []): Promise<unknown> {
    try {
      const [answer] = await this.#connection.query(sql, [...values])
      return answer
    } catch (error) {
      throw toStoreError(error, 'copy')
    }
  }
}

/** The connection's default database has the tables. */
function place(sql: string): string {
  return sql.replaceAll('@', '')
}
