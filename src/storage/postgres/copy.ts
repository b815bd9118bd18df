import { Client, type Connection, escapeIdentifier, type QueryResult, type Submittable } from 'pg'
import type { Cell, CopyRow } from '../copy-tables.ts'
import { CopyEnd } from '../sql/copy/copy.ts'
import {
  type CopyDatabase,
  type CopyDialect,
  type CopyInsert,
  type CopyValue,
  countChars,
  pageChars,
  restartLocksAt,
} from '../sql/copy/copy-database.ts'
import { type CopyShapes, leaseNoCell, queuesByKey, sharedShapes } from '../sql/copy/copy-shapes.ts'
import { sqlState, toStoreError } from './connection/failures.ts'
import { nowMs } from './connection/statement.ts'
import { parseTarget, type Target } from './connection/target.ts'
import { createPostgresDialect } from './dialect.ts'
import { storableKey } from './jobs/add.ts'

const ofJobs: CopyShapes[string] = {
  more: { limit_key: (cell) => storableKey(cell('meta')), lease_no: leaseNoCell },
}

/** The shapes of copied rows in Postgres. */
export const postgresShapes: CopyShapes = {
  ...sharedShapes,
  ...queuesByKey,
  job_queue: ofJobs,
  job_history: ofJobs,
}

/** A Postgres database as one end of a copy. */
export async function openPostgresCopyEnd(url: string): Promise<CopyEnd> {
  const target = parseTarget(url)
  const client = await connect(target)
  try {
    const { rows } = await client.query<{ schema: string | null }>('SELECT current_schema() AS schema')
    return new CopyEnd(new PostgresCopyDatabase(target, client, target.schema ?? rows[0]?.schema ?? 'public'))
  } catch (error) {
    await client.end().catch(() => undefined)
    throw toStoreError(error)
  }
}

/** Returns every value as the text that the server sends. */
const asText = { getTypeParser: () => (value: unknown) => value }

async function connect({ config }: Target): Promise<Client> {
  const client = new Client({ ...config, types: asText as never })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query(`SET statement_timeout = 0; SET lock_timeout = '30s'; SET jit = off`)
    return client
  } catch (error) {
    await client.end().catch(() => undefined)
    throw toStoreError(error)
  }
}

class PostgresCopyDatabase implements CopyDatabase {
  readonly #target: Target
  readonly #client: Client
  readonly #schema: string
  readonly dialect: CopyDialect

  constructor(target: Target, client: Client, schema: string) {
    this.#target = target
    this.#client = client
    this.#schema = schema
    this.dialect = {
      ...createPostgresDialect(escapeIdentifier(schema)),
      shapes: postgresShapes,
      metaKey: 'key',
      appliedAt: 'clock_timestamp()',
      tableOptions: '',
      truth: (sql) => `${sql}::int`,
      cancelsOutliveLeases: true,
      restartLocks: restartLocksAt(nowMs),
    }
  }

  async rows<Row extends object>(sql: string, values?: readonly CopyValue[]): Promise<readonly Row[]> {
    return (await this.#query(sql, values)).rows as Row[]
  }

  async run(sql: string, values?: readonly CopyValue[]): Promise<number> {
    return (await this.#query(sql, values)).rowCount ?? 0
  }

  async transact(work: () => Promise<void>): Promise<void> {
    try {
      await this.#client.query('BEGIN')
      await work()
      await this.#client.query('COMMIT')
    } catch (error) {
      await this.#client.query('ROLLBACK').catch(() => undefined)
      throw toEndError(error)
    }
  }

  async insert({ table, columns, rows, keepsExisting = false }: CopyInsert): Promise<void> {
    if (rows.length === 0) return
    const into = this.#place(`@${table} (${columns.join(', ')})`)
    if (!keepsExisting) return copyIn(this.#client, into, rows)
    const most = Math.floor(60_000 / columns.length)
    for (let from = 0; from < rows.length; from += most) {
      const some = rows.slice(from, from + most)
      const places = some.map(() => `(${columns.map(() => '?').join(', ')})`)
      await this.run(`INSERT INTO ${into} VALUES ${places.join(', ')} ON CONFLICT DO NOTHING`, some.flat())
    }
  }

  async *pages(select: string, behind: string, pageRows: number): AsyncGenerator<readonly CopyRow[]> {
    await this.#client.query(`DECLARE copied NO SCROLL CURSOR FOR ${this.#place(select)} ${behind}`)
    // Rows may be small or large: the next page has as many rows as would have filled the last one.
    let size = Math.min(200, pageRows)
    for (;;) {
      const { rows } = await this.#client.query<(string | null)[]>({
        text: `FETCH ${size} FROM copied`,
        rowMode: 'array',
      })
      if (rows.length > 0) yield rows
      if (rows.length < size) break
      const chars = rows.reduce((sum, row) => sum + countChars(row), 1)
      size = Math.min(pageRows, Math.max(10, Math.floor((rows.length * pageChars) / chars)))
    }
    await this.#client.query('CLOSE copied')
  }

  async hasTable(name: string): Promise<boolean> {
    const sql = 'SELECT 1 AS found FROM pg_tables WHERE schemaname = ? AND tablename = ?'
    return (await this.rows(sql, [this.#schema, name])).length > 0
  }

  async clocks(): Promise<{ readonly now: number; readonly lockNow: number }> {
    const [row] = await this.rows<{ now: string }>(`SELECT ${nowMs} AS now`)
    return { now: Number(row!.now), lockNow: Number(row!.now) }
  }

  quote(text: string): string {
    return this.#client.escapeLiteral(text)
  }

  async openSnapshot(): Promise<CopyDatabase> {
    const client = await connect(this.#target)
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return new PostgresCopyDatabase(this.#target, client, this.#schema)
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined)
  }

  #place(sql: string): string {
    return sql.replaceAll(/@(\w+)/g, (_, name: string) => `${escapeIdentifier(this.#schema)}.${name}`)
  }

  async #query(sql: string, values: readonly CopyValue[] = []): Promise<QueryResult> {
    let number = 0
    const text = this.#place(sql).replaceAll('?', () => `$${++number}`)
    try {
      return await this.#client.query(text, [...values])
    } catch (error) {
      throw toEndError(error)
    }
  }
}

/** In a copy, "no such table" is a defect of Signalbox, so the caller gets the error of the database. */
function toEndError(error: unknown): unknown {
  return sqlState(error)?.startsWith('42') ? error : toStoreError(error)
}

/** Writes rows by COPY, the cheapest way for the server. The driver has no call for it. All rows go in one message. */
function copyIn(client: Client, into: string, rows: readonly (readonly Cell[])[]): Promise<void> {
  const data = Buffer.from(`${rows.map(encodeRow).join('\n')}\n`)
  return new Promise((resolve, reject) => {
    let failure: Error | undefined
    const copying: Submittable & Record<`handle${string}`, (given: never) => void> = {
      submit(connection: Connection) {
        connection.query(`COPY ${into} FROM STDIN`)
      },
      handleCopyInResponse(connection: Connection) {
        const wire = connection as unknown as { sendCopyFromChunk(chunk: Buffer): void; endCopyFrom(): void }
        wire.sendCopyFromChunk(data)
        wire.endCopyFrom()
      },
      handleCommandComplete() {},
      handleError(error: Error) {
        // After an error the server sends "ready". A broken connection does not.
        failure = error
        reject(error)
      },
      handleReadyForQuery() {
        if (failure === undefined) resolve()
      },
    }
    client.query(copying)
  })
}

const special = /[\\\t\n\r]/
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** One row in COPY's text format. */
function encodeRow(row: readonly Cell[]): string {
  let line = ''
  for (let i = 0; i < row.length; i++) {
    if (i > 0) line += '\t'
    const value = row[i]
    if (value === null || value === undefined) line += '\\N'
    else line += special.test(value) ? value.replaceAll(/[\\\t\n\r]/g, (found) => escapes[found]!) : value
  }
  return line
}
