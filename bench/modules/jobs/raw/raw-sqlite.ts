/**
 * The limit on SQLite: one connection, WAL, claim and ack in batches of 500, a history row for each job. There is one
 * writer, so choosing and marking in one statement is exclusive.
 */
import { DatabaseSync } from 'node:sqlite'
import type { Lane, LaneWorker } from '../lane.ts'
import { rawIds } from './raw-postgres.ts'

const batch = 500
const now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`

const columns = `
  id TEXT PRIMARY KEY, queue TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL, priority INTEGER NOT NULL,
  state TEXT NOT NULL, attempt INTEGER NOT NULL, max_attempts INTEGER NOT NULL, run_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL, started_at INTEGER, worker_id TEXT`

/** The plain statements, on a database whose commits are on disk (FULL) or only safe from a crash of ours (NORMAL). */
export class RawSqlite {
  readonly database: DatabaseSync
  readonly #statements: Record<
    'begin' | 'commit' | 'add' | 'claim' | 'keep' | 'drop' | 'any',
    ReturnType<DatabaseSync['prepare']>
  >

  constructor(url: string, synchronous: 'FULL' | 'NORMAL' = 'FULL') {
    this.database = new DatabaseSync(url.replace(/^sqlite:/, ''))
    this.database.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = ${synchronous};
      CREATE TABLE IF NOT EXISTS job_queue (${columns}, lease_no INTEGER NOT NULL, lease_ends_at INTEGER) WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS job_queue_line ON job_queue (queue, state, priority DESC, run_at, id);
      CREATE TABLE IF NOT EXISTS job_history (${columns}, finished_at INTEGER NOT NULL) WITHOUT ROWID`)
    const prepare = (sql: string): ReturnType<DatabaseSync['prepare']> => this.database.prepare(sql)
    this.#statements = {
      begin: prepare('BEGIN IMMEDIATE'),
      commit: prepare('COMMIT'),
      add: prepare(`
        INSERT INTO job_queue VALUES (?, 'default', 'noop', ?, 0, 'ready', 0, 5, ${now}, ${now}, NULL, NULL, 0, NULL)`),
      claim: prepare(`
        UPDATE job_queue SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1,
          lease_ends_at = ${now} + 30000, started_at = ${now}, worker_id = 'raw'
        WHERE id IN (
          SELECT id FROM job_queue WHERE queue = 'default' AND state = 'ready' AND run_at <= ${now}
          ORDER BY priority DESC, run_at, id LIMIT ?)
        RETURNING id, payload`),
      keep: prepare(`
        INSERT INTO job_history
        SELECT id, queue, kind, payload, priority, 'completed', attempt, max_attempts, run_at, created_at, started_at,
          worker_id, ${now}
        FROM job_queue WHERE id = ? AND state = 'running' AND lease_no = 1 AND lease_ends_at > ${now}`),
      drop: prepare('DELETE FROM job_queue WHERE id = ? AND lease_no = 1'),
      any: prepare('SELECT 1 FROM job_queue LIMIT 1'),
    }
  }

  addMany(numbers: readonly number[]): void {
    const ids = rawIds(numbers.length)
    this.begin()
    numbers.forEach((number, at) => {
      this.#statements.add.run(ids[at]!, JSON.stringify({ number }))
    })
    this.commit()
  }

  begin(): void {
    this.#statements.begin.run()
  }

  commit(): void {
    this.#statements.commit.run()
  }

  /** One statement, so one commit. */
  claim(limit: number): { id: string; payload: string }[] {
    return this.#statements.claim.all(limit) as { id: string; payload: string }[]
  }

  /** Inside a transaction. */
  ack(id: string): void {
    if (this.#statements.keep.run(id).changes !== 1) throw new Error(`The lease of ${id} is lost.`)
    this.#statements.drop.run(id)
  }

  get isEmpty(): boolean {
    return this.#statements.any.get() === undefined
  }
}

export async function rawSqliteLane(url: string): Promise<Lane> {
  const raw = new RawSqlite(url)
  return {
    async addMany(numbers) {
      raw.addMany(numbers)
    },
    async add(number) {
      raw.addMany([number])
    },
    work: async (handle, fail) => work(raw, handle, fail),
    async isEmpty() {
      return raw.isEmpty
    },
    async [Symbol.asyncDispose]() {
      raw.database.close()
    },
  }
}

function work(raw: RawSqlite, ...[handle, fail]: Parameters<Lane['work']>): LaneWorker {
  let isStopped = false
  const loop = async (): Promise<void> => {
    while (!isStopped) {
      const jobs = raw.claim(batch)
      for (const job of jobs) handle(JSON.parse(job.payload).number)
      if (jobs.length > 0) {
        raw.begin()
        for (const { id } of jobs) raw.ack(id)
        raw.commit()
      }
      // One writer, but not one process: others and our own timers get their turn.
      await new Promise((wake) => setImmediate(wake))
    }
  }
  const running = loop()
  running.catch(fail)
  return {
    async stop() {
      isStopped = true
      await running
    },
  }
}
