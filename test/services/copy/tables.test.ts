import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMigrator } from '../../../src/storage/index.ts'
import { mariadbShapes } from '../../../src/storage/mariadb/copy.ts'
import { postgresShapes } from '../../../src/storage/postgres/copy.ts'
import { findUncopied } from '../../copy/coverage.ts'
import { connect } from '../../crashes/ground.ts'
import { ownMariadb, ownPostgres } from '../../support/services/own.ts'

test('a copy carries every table and column of Postgres, or names the reason why not', async () => {
  await using own = await ownPostgres()
  const tables = await tablesOf(
    own.url,
    `SELECT c.table_name AS "table", c.column_name AS "column" FROM information_schema.columns c
     JOIN pg_tables t ON t.schemaname = c.table_schema AND t.tablename = c.table_name
     WHERE c.table_schema = 'public' AND c.is_generated = 'NEVER'`,
  )
  assert.deepEqual(findUncopied(tables, postgresShapes), [])
})

test('a copy carries every table and column of MariaDB, or names the reason why not', async () => {
  await using own = await ownMariadb()
  const tables = await tablesOf(
    own.url,
    `SELECT table_name AS \`table\`, column_name AS \`column\` FROM information_schema.columns
     WHERE table_schema = DATABASE() AND extra NOT LIKE '%GENERATED%'`,
  )
  assert.deepEqual(findUncopied(tables, mariadbShapes), [])
})

async function tablesOf(url: string, sql: string): Promise<ReadonlyMap<string, readonly string[]>> {
  {
    await using migrator = await openMigrator(url)
    await migrator.up()
  }
  await using caller = await connect(url)
  const rows = (await caller.exec(sql)) as readonly { table: string; column: string }[]
  return new Map(
    [...Map.groupBy(rows, ({ table }) => table)].map(([table, some]) => [
      table,
      some.map(({ column }) => column),
    ]),
  )
}
