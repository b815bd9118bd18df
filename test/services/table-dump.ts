import { existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { createConnection } from 'mysql2/promise'
import pg from 'pg'

/** Every row of every table of a database, as text, by table. Of a SQLite file also its raw bytes. */
export async function dumpTables(url: string): Promise<ReadonlyMap<string, string>> {
  if (url.startsWith('sqlite:')) return dumpSqlite(url.replace(/^sqlite:/, ''))
  return url.startsWith('postgres') ? dumpPostgres(url) : dumpMariadb(url)
}

function dumpSqlite(path: string): ReadonlyMap<string, string> {
  const dump = new Map<string, string>()
  using database = new DatabaseSync(path, { readOnly: true })
  const tables = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'table'`).all()
  for (const { name } of tables)
    dump.set(String(name), JSON.stringify(database.prepare(`SELECT * FROM "${name}"`).all()))
  for (const file of [path, `${path}-wal`]) if (existsSync(file)) dump.set(file, readFileSync(file, 'latin1'))
  return dump
}

async function dumpPostgres(url: string): Promise<ReadonlyMap<string, string>> {
  const address = new URL(url)
  address.searchParams.delete('schema')
  const client = new pg.Client({ connectionString: address.href })
  await client.connect()
  try {
    const dump = new Map<string, string>()
    const { rows: tables } = await client.query(
      `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name) AS name FROM information_schema.tables
       WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`,
    )
    for (const { name } of tables) {
      const { rows } = await client.query(`SELECT t::text AS row FROM ${name} t`)
      dump.set(name, rows.map(({ row }) => row).join('\n'))
    }
    return dump
  } finally {
    await client.end()
  }
}

async function dumpMariadb(url: string): Promise<ReadonlyMap<string, string>> {
  const connection = await createConnection({ uri: url })
  try {
    const dump = new Map<string, string>()
    const [tables] = await connection.query('SHOW TABLES')
    for (const table of tables as Record<string, string>[]) {
      const name = Object.values(table)[0]!
      const [rows] = await connection.query(`SELECT * FROM \`${name}\``)
      dump.set(name, JSON.stringify(rows))
    }
    return dump
  } finally {
    await connection.end()
  }
}
