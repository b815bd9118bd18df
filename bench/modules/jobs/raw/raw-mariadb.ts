/**
 * The limit on MariaDB: claim, ack and a history row for each job in the plainest SQL. It has no UPDATE … RETURNING,
 * so a claim is a locking read that skips what others hold, then an update by primary key; an ack copies to history
 * and deletes. Batches of 500 on two connections, READ COMMITTED, ids in order: the quickest found.
 */
import { type Connection, createConnection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise'
import type { Lane, LaneWorker } from '../lane.ts'
import { rawIds } from './raw-postgres.ts'

const batch = 500
const now = `CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS UNSIGNED)`

const columns = `
  id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  queue VARCHAR(191) NOT NULL, kind VARCHAR(191) NOT NULL, payload LONGTEXT NOT NULL, priority INT NOT NULL,
  state VARCHAR(16) NOT NULL, attempt INT NOT NULL, max_attempts INT NOT NULL, run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL, started_at BIGINT NULL, worker_id VARCHAR(191) NULL`

export const rawMariadbTables: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS job_queue (${columns}, lease_ends_at BIGINT NULL, lease_no BIGINT NOT NULL,
    KEY line (queue, state, priority DESC, run_at, id))`,
  `CREATE TABLE IF NOT EXISTS job_history (${columns}, finished_at BIGINT NOT NULL)`,
]

export async function rawMariadbAdd(connection: Connection, numbers: readonly number[]): Promise<void> {
  const ids = rawIds(numbers.length)
  const [rows] = await connection.query<RowDataPacket[]>(`SELECT ${now} AS at`)
  const { at } = rows[0]!
  await connection.query(
    `INSERT INTO job_queue
     (id, queue, kind, payload, priority, state, attempt, max_attempts, run_at, created_at, lease_no) VALUES ?`,
    [
      numbers.map((number, n) => [
        ids[n],
        'default',
        'noop',
        JSON.stringify({ number }),
        0,
        'ready',
        0,
        5,
        at,
        at,
        0,
      ]),
    ],
  )
}

/** Takes up to `limit` under a lease. */
export async function rawMariadbClaim(
  connection: Connection,
  limit: number,
): Promise<{ id: string; payload: string }[]> {
  await connection.query('START TRANSACTION')
  const [rows] = await connection.query<RowDataPacket[]>(
    `SELECT id, payload FROM job_queue WHERE queue = 'default' AND state = 'ready' AND run_at <= ${now}
     ORDER BY priority DESC, run_at, id LIMIT ? FOR UPDATE SKIP LOCKED`,
    [limit],
  )
  if (rows.length > 0) {
    await connection.query(
      `UPDATE job_queue SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, worker_id = 'raw',
         started_at = ${now}, lease_ends_at = ${now} + 30000
       WHERE id IN (?)`,
      [rows.map(({ id }) => id)],
    )
  }
  await connection.query('COMMIT')
  return rows as { id: string; payload: string }[]
}

/** Ends jobs whose lease is live, inside the caller's transaction: two round trips. */
export async function rawMariadbAck(connection: Connection, ids: readonly string[]): Promise<void> {
  const [kept] = await connection.query<ResultSetHeader>(
    `INSERT INTO job_history
     SELECT id, queue, kind, payload, priority, 'completed', attempt, max_attempts, run_at, created_at, started_at,
       worker_id, ${now}
     FROM job_queue WHERE id IN (?) AND state = 'running' AND lease_no = 1 AND lease_ends_at > ${now}`,
    [ids],
  )
  if (kept.affectedRows !== ids.length) throw new Error('The lease is lost.')
  await connection.query(`DELETE FROM job_queue WHERE id IN (?) AND lease_no = 1`, [ids])
}

export async function connectMariadb(url: string, count: number): Promise<Connection[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const connection = await createConnection(url)
      await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
      return connection
    }),
  )
}

export async function rawMariadbLane(url: string): Promise<Lane> {
  const adders = await connectMariadb(url, 4)
  for (const sql of rawMariadbTables) await adders[0]!.query(sql)
  let turn = 0
  return {
    addMany: (numbers) => rawMariadbAdd(adders[turn++ % adders.length]!, numbers),
    add: (number) => rawMariadbAdd(adders[0]!, [number]),
    work: (handle, fail) => work(url, handle, fail),
    async isEmpty() {
      const [rows] = await adders[0]!.query<RowDataPacket[]>('SELECT id FROM job_queue LIMIT 1')
      return rows.length === 0
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(adders.map((connection) => connection.end()))
    },
  }
}

async function work(url: string, ...[handle, fail]: Parameters<Lane['work']>): Promise<LaneWorker> {
  const connections = await connectMariadb(url, 2)
  let isStopped = false
  const loops = connections.map(async (connection) => {
    while (!isStopped) {
      const jobs = await rawMariadbClaim(connection, batch)
      if (jobs.length === 0) {
        await new Promise((wake) => setTimeout(wake, 5))
        continue
      }
      for (const job of jobs) handle(JSON.parse(job.payload).number)
      const ids = jobs.map(({ id }) => id)
      await connection.query('START TRANSACTION')
      await rawMariadbAck(connection, ids)
      await connection.query('COMMIT')
    }
  })
  Promise.all(loops).catch(fail)
  return {
    async stop() {
      isStopped = true
      await Promise.all(loops)
      await Promise.all(connections.map((connection) => connection.end()))
    },
  }
}
