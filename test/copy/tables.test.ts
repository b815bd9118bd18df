import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { copyTables, leftBehind } from '../../src/storage/copy-tables.ts'
import { sqliteShapes } from '../../src/storage/sqlite/copy.ts'
import { migrations } from '../../src/storage/sqlite/schema.ts'
import { findUncopied } from './coverage.ts'

test('a copy carries every table and column of SQLite, or names the reason why not', () => {
  const db = new DatabaseSync(':memory:')
  for (const { statements } of migrations) for (const statement of statements) db.exec(statement)
  const columns = db
    .prepare(
      `SELECT m.name AS "table", c.name AS "column" FROM sqlite_schema m JOIN pragma_table_info(m.name) c
       WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`,
    )
    .all() as { table: string; column: string }[]
  const tables = new Map(
    [...Map.groupBy(columns, ({ table }) => table)].map(([table, rows]) => [
      table,
      rows.map(({ column }) => column),
    ]),
  )
  assert.deepEqual(findUncopied(tables, sqliteShapes), [])
  tables.set('job_dream', ['id'])
  tables.set('job_dependency', [...tables.get('job_dependency')!, 'mood'])
  assert.deepEqual(findUncopied(tables, sqliteShapes), [
    'job_dependency.mood is neither copied nor left behind',
    'job_dream is neither copied nor left behind',
  ])
})

test('no table is both copied and left behind, and every key is among its columns', () => {
  for (const { name, key, columns } of copyTables) {
    assert.ok(!(name in leftBehind), name)
    for (const column of key)
      assert.ok(
        columns.some((one) => one.name === column),
        `${name}.${column}`,
      )
  }
})
