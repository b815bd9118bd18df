/**
 * A user's own connection, in one shape for the three drivers: it runs the program's statements and has the object that
 * the program would pass to Signalbox as `tx`. Statements take `?` everywhere; each driver gets its own placeholders.
 */

import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { createConnection, createPool, type RowDataPacket } from 'mysql2/promise'
import { Client, Pool } from 'pg'
import type { CallerTransaction } from 'signalbox/jobs'

export interface Caller extends AsyncDisposable {
  /** The driver's own connection, as the program's library holds it. */
  readonly tx: CallerTransaction
  begin(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  /** Runs one statement; answers its rows, if it has any. */
  exec(
    sql: string,
    ...params: readonly (string | number | null)[]
  ): Promise<readonly Record<string, unknown>[]>
}

export async function sqliteCaller(url: string): Promise<Caller> {
  const db = new DatabaseSync(url.replace(/^sqlite:/, ''), { timeout: 5_000 })
  return {
    tx: db,
    begin: async () => db.exec('BEGIN IMMEDIATE'),
    commit: async () => db.exec('COMMIT'),
    rollback: async () => db.exec('ROLLBACK'),
    exec: async (sql, ...params) => db.prepare(sql).all(...(params as SQLInputValue[])),
    [Symbol.asyncDispose]: async () => db.close(),
  }
}

export async function postgresCaller(url: string): Promise<Caller> {
  const client = new Client(url)
  // Some tests kill the server: an idle connection that breaks must not end the process.
  client.on('error', () => undefined)
  await client.connect()
  const run = async (sql: string) => void (await client.query(sql))
  return {
    tx: client,
    begin: () => run('BEGIN'),
    commit: () => run('COMMIT'),
    rollback: () => run('ROLLBACK'),
    async exec(sql, ...params) {
      let number = 0
      return (
        await client.query(
          sql.replaceAll('?', () => `$${++number}`),
          [...params],
        )
      ).rows
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}

export async function mariadbCaller(url: string): Promise<Caller> {
  const connection = await createConnection(url)
  connection.on('error', () => undefined)
  const run = async (sql: string) => void (await connection.query(sql))
  return {
    tx: connection,
    begin: () => run('START TRANSACTION'),
    commit: () => run('COMMIT'),
    rollback: () => run('ROLLBACK'),
    async exec(sql, ...params) {
      const [rows] = await connection.query<RowDataPacket[]>(sql, [...params])
      return Array.isArray(rows) ? rows : []
    },
    [Symbol.asyncDispose]: () => connection.end(),
  }
}

export async function postgresPool(url: string): Promise<{ readonly pool: unknown } & AsyncDisposable> {
  const pool = new Pool({ connectionString: url, max: 1 })
  return { pool, [Symbol.asyncDispose]: () => pool.end() }
}

export async function mariadbPool(url: string): Promise<{ readonly pool: unknown } & AsyncDisposable> {
  const pool = createPool({ uri: url, connectionLimit: 1 })
  return { pool, [Symbol.asyncDispose]: () => pool.end() }
}
