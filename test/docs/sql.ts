/** Blocks of SQL: on the page's SQLite file, or on the engine that the fence names. */
import { DatabaseSync } from 'node:sqlite'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { addresses } from './addresses.ts'
import type { Block } from './blocks.ts'

/** Runs the statements of a block; answers their rows, as lines of JSON. */
export async function runSql({ info }: Block, text: string): Promise<string> {
  const statements = text
    .split(/;\s*$/m)
    .filter((statement) => /^\s*\w/m.test(statement.replace(/--.*$/gm, '')))
  const rows: unknown[] = []
  if (info === 'postgres') {
    const client = new Client(addresses.postgres)
    await client.connect()
    for (const statement of statements) rows.push(...(await client.query(statement)).rows)
    await client.end()
  } else if (info === 'mariadb') {
    const connection = await createConnection(addresses.mariadb!)
    for (const statement of statements) rows.push(...((await connection.query(statement))[0] as unknown[]))
    await connection.end()
  } else {
    using database = new DatabaseSync('signalbox.db', { timeout: 5_000 })
    for (const statement of statements) rows.push(...database.prepare(statement).all())
  }
  return rows.map((row) => JSON.stringify(row)).join('\n')
}
