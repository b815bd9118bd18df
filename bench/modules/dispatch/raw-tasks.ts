/**
 * The rows of dispatched tasks, written raw: the columns and indexes that Signalbox's own rows have, added, claimed and
 * ended in batches of 500, each batch one commit on disk, without callers and without nodes.
 */
import { randomBytes } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import type { Figures } from '../../case.ts'
import type { SocketsPace } from './paced.ts'

/** Tasks in a batch. */
export const rawBatch = 500
const now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`
const document = JSON.stringify({
  ...{ service: 'asr', uses: { asr: 1 }, requires: [], prefers: [], priority: 5, tenant: 'default' },
  ...{ session: null, deadlineMs: null, idleMs: null, retryable: true },
  payload: { text: 'where is the station, please?', from: 'en', to: 'de' },
})
const output = JSON.stringify({ nodeId: 'node-0', output: { ok: true } })

const columns = `
  namespace TEXT NOT NULL, id TEXT NOT NULL, queue TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
  priority INTEGER NOT NULL, unique_key TEXT, state TEXT NOT NULL, attempt INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL, run_at INTEGER NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER,
  worker_id TEXT, lease_no INTEGER NOT NULL, lease_nonce TEXT`

const schema = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE task_queue (${columns}, lease_ends_at INTEGER, UNIQUE (namespace, id)) STRICT;
  CREATE INDEX task_ready ON task_queue (namespace, queue, kind, priority DESC, run_at, id) WHERE state = 'ready';
  CREATE INDEX task_running ON task_queue (namespace, lease_ends_at) WHERE state = 'running';
  CREATE UNIQUE INDEX task_unique ON task_queue (namespace, queue, unique_key) WHERE unique_key IS NOT NULL;
  CREATE TABLE task_history (${columns}, finished_at INTEGER NOT NULL, result TEXT, PRIMARY KEY (namespace, id))
    STRICT, WITHOUT ROWID`

/** Tasks a second, and what one costs. */
export function rawTasks(url: string, { warmMs, timedMs }: SocketsPace): Figures {
  const database = new DatabaseSync(url.replace(/^sqlite:/, ''))
  try {
    const rows = rawRows(database)
    const round = () => rows.end(rows.begin())
    runFor(round, warmMs)
    const [begun, spent] = [performance.now(), process.cpuUsage()]
    const count = runFor(round, timedMs)
    const { user, system } = process.cpuUsage(spent)
    return { rate: (count / (performance.now() - begun)) * 1_000, microseconds: (user + system) / count }
  } finally {
    database.close()
  }
}

function runFor(round: () => number, ms: number): number {
  const until = performance.now() + ms
  let count = 0
  while (performance.now() < until) count += round()
  return count
}

/** The rows of a batch of tasks. */
export interface RawRows {
  /** Adds and claims it; answers its ids. */
  begin(): readonly string[]
  /** Ends it; answers how many that were. */
  end(ids: readonly string[]): number
}

export function rawRows(database: DatabaseSync): RawRows {
  database.exec(schema)
  const begin = database.prepare('BEGIN IMMEDIATE')
  const commit = database.prepare('COMMIT')
  const add = database.prepare(`
    INSERT INTO task_queue VALUES
      ('default', ?, 'tasks', 'asr', ?, 5, ?, 'ready', 0, 5, ${now}, ${now}, NULL, NULL, 0, NULL, NULL)`)
  const claim = database.prepare(`
    UPDATE task_queue SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, lease_nonce = ?,
      lease_ends_at = ${now} + 30000, started_at = ${now}, worker_id = 'raw'
    WHERE rowid IN (
      SELECT rowid FROM task_queue
      WHERE namespace = 'default' AND queue = 'tasks' AND kind = 'asr' AND state = 'ready' AND run_at <= ${now}
      ORDER BY priority DESC, run_at, id LIMIT ?)
    RETURNING id, payload`)
  const keep = database.prepare(`
    INSERT INTO task_history
    SELECT namespace, id, queue, kind, payload, priority, unique_key, 'completed', attempt, max_attempts, run_at,
      created_at, started_at, worker_id, lease_no, lease_nonce, ${now}, ?
    FROM task_queue
    WHERE namespace = 'default' AND id = ? AND state = 'running' AND lease_no = 1 AND lease_ends_at > ${now}`)
  const drop = database.prepare(`DELETE FROM task_queue WHERE namespace = 'default' AND id = ?`)
  let lastId = 0

  return {
    begin() {
      begin.run()
      for (let left = rawBatch; left > 0; left--) {
        const id = `01jqz${String(lastId++).padStart(21, '0')}`
        add.run(id, document, id)
      }
      commit.run()
      const claimed = claim.all(randomBytes(8).toString('hex'), rawBatch) as { id: string }[]
      return claimed.map(({ id }) => id)
    },
    end(ids) {
      begin.run()
      for (const id of ids) {
        if (keep.run(output, id).changes !== 1) throw new Error(`The lease of ${id} is lost.`)
        drop.run(id)
      }
      commit.run()
      return ids.length
    },
  }
}
