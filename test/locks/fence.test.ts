import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { sqlFence } from '../../src/locks/index.ts'

test('on SQLite a write with an older token than the last one changes nothing', () => {
  using db = new DatabaseSync(':memory:')
  db.exec(
    `CREATE TABLE images (id TEXT PRIMARY KEY, digest TEXT, fence INTEGER NOT NULL DEFAULT 0); INSERT INTO images (id) VALUES ('app:1.2')`,
  )
  const fence = sqlFence({ dialect: 'sqlite', table: 'images' })
  const write = (digest: string, token: number) =>
    db
      .prepare(fence.update(['digest']))
      .run(...(fence.updateParameters([digest], 'app:1.2', token) as [string, number, string, number]))
      .changes
  assert.equal(write('first', 33), 1)
  assert.equal(write('same turn', 33), 1)
  assert.equal(write('second', 34), 1)
  assert.equal(write('frozen', 33), 0)
  assert.deepEqual(
    { ...db.prepare('SELECT digest, fence FROM images').get() },
    { digest: 'second', fence: 34 },
  )
})

test('each dialect has its own placeholders and quotes, and names cannot break out of them', () => {
  const options = { table: 'my "images`', key: 'name', fence: 'token' }
  assert.equal(
    sqlFence({ dialect: 'postgres', ...options }).update(['digest', 'size']),
    `UPDATE "my ""images\`" SET "digest" = $1, "size" = $2, "token" = $3 WHERE "name" = $4 AND "token" <= $5`,
  )
  assert.equal(
    sqlFence({ dialect: 'mariadb', ...options }).update([]),
    'UPDATE `my "images``` SET `token` = ? WHERE `name` = ? AND `token` <= ?',
  )
  assert.throws(() => sqlFence({ dialect: 'sqlite', table: '' }), { code: 'invalid_argument' })
})
