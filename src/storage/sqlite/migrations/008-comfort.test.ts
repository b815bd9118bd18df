import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { openSqlite } from '../index.ts'
import { migrations } from './index.ts'

/** A file as a version before this step left it, with a job that waits and one that ended. */
function writeOldFile(path: string): void {
  const db = new DatabaseSync(path)
  db.exec(`CREATE TABLE signalbox_migration (
    number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`)
  for (const { number, name, statements } of migrations.filter((step) => step.number < 8)) {
    for (const statement of statements) db.exec(statement)
    db.prepare('INSERT INTO signalbox_migration VALUES (?, ?, 0)').run(number, name)
  }
  db.exec(`INSERT INTO job_queue (namespace, id, queue, kind, payload, priority, state, max_attempts, run_at,
      created_at, updated_at)
    VALUES ('old', 'waits', 'mail', 'welcome', '{"to":"ada"}', 0, 'ready', 5, 1, 1, 1)`)
  db.exec(`INSERT INTO job_history (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts,
      free_count, run_at, created_at, finished_at, lease_no, cancel_ignored, settled_tokens)
    VALUES ('old', 'ended', 'mail', 'welcome', '1', 0, 'dead', 5, 5, 0, 1, 1, 2, 5, 0, '')`)
  db.close()
}

test('jobs of a file from before there were words about jobs are there, and go on', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'signalbox-comfort-'))
  try {
    writeOldFile(join(directory, 'old.db'))
    await using backend = await openSqlite(`sqlite:${join(directory, 'old.db')}`, {
      namespace: 'old',
      migrate: true,
    })
    const { jobs } = backend
    assert.deepEqual(
      (await jobs.list({ limit: 10 })).map(({ id, state, meta }) => [id, state, meta]),
      [
        ['waits', 'ready', null],
        ['ended', 'dead', null],
      ],
    )
    assert.deepEqual(await jobs.retry('ended'), { outcome: 'ready' })
    const request = { queues: ['mail'], kinds: null, workerId: 'w', limit: 10, leaseMs: 60_000 }
    const claimed = await jobs.claim(request)
    assert.deepEqual(
      claimed.map(({ id, meta }) => [id, meta]),
      [
        ['waits', null],
        ['ended', null],
      ],
    )
    await jobs.settle(
      claimed.map(({ id, token }) => ({
        ...{ jobId: id, token, state: 'completed', attempt: 1, freeCount: 0, delayMs: 0 },
        ...{ ranMs: null, result: null, error: null },
      })),
    )
    assert.equal((await jobs.find('waits'))?.state, 'completed')
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
