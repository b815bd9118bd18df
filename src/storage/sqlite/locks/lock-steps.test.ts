import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { openSqlite } from '../index.ts'
import { findDueSql, findGoneSql, forgetSql, maySweepSql } from './lock-steps.ts'

test('a sweep reads only entries that its indexes show as due, however many wait queues there are', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-'))
  try {
    const path = join(folder, 'x.db')
    const backend = await openSqlite(`sqlite:${path}`, { namespace: 'default', migrate: true })
    await backend.close()
    using db = new DatabaseSync(path)
    const plan = (sql: string, ...params: (string | number)[]) =>
      db
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all(...params)
        .map(({ detail }) => String(detail))
        .filter((detail) => /^(SCAN|SEARCH) (lock|h|w)/.test(detail))
    const found = [
      ...plan(maySweepSql, 'default', 1, 1),
      ...plan(findDueSql, 'default', 1, 100),
      ...plan(findGoneSql, 'default', 1, 100),
      ...plan(forgetSql, 'default', 1, 1, 100),
    ]
    assert.ok(found.length >= 12, found.join('\n'))
    const bounded = /lease_ends_at<|deadline_at<|due_at<|kept_until<|last_at[=<]|rowid=|^SCAN w$/
    for (const detail of found) assert.match(detail, bounded)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
