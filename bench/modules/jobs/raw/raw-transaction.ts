/**
 * The limits for one transaction per job with a user's insert in it: the loop anybody would write. Jobs are claimed a
 * hundred at a time, outside; then, for each, BEGIN, the user's insert, the ack that turns the job into its history if
 * the lease still holds, COMMIT, each awaited before the next is sent.
 */
import { Client } from 'pg'
import {
  connectMariadb,
  rawMariadbAck,
  rawMariadbAdd,
  rawMariadbClaim,
  rawMariadbTables,
} from './raw-mariadb.ts'
import { connect, rawIds } from './raw-postgres.ts'
import { RawSqlite } from './raw-sqlite.ts'

const batch = 100
const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

/** The plainest layout: a claim marks the row, an ack deletes it and writes the history row, in one statement. */
const tables = `
  CREATE TABLE job_queue (
    id text COLLATE "C" PRIMARY KEY, queue text NOT NULL, kind text NOT NULL, payload text NOT NULL,
    priority int NOT NULL, state text NOT NULL, attempt int NOT NULL, max_attempts int NOT NULL,
    run_at bigint NOT NULL, created_at bigint NOT NULL, started_at bigint, worker_id text,
    lease_no bigint NOT NULL, lease_ends_at bigint);
  CREATE INDEX job_queue_line ON job_queue (queue, priority DESC, run_at, id) WHERE state = 'ready';
  CREATE TABLE job_history (
    id text COLLATE "C" PRIMARY KEY, queue text NOT NULL, kind text NOT NULL, payload text NOT NULL,
    priority int NOT NULL, state text NOT NULL, attempt int NOT NULL, max_attempts int NOT NULL,
    run_at bigint NOT NULL, created_at bigint NOT NULL, started_at bigint, worker_id text,
    finished_at bigint NOT NULL)`

const add = `
  INSERT INTO job_queue
  SELECT j.id, 'default', 'pay', j.payload, 0, 'ready', 0, 5, ${now}, ${now}, NULL, NULL, 0, NULL
  FROM unnest($1::text[], $2::text[]) AS j (id, payload)`

const claim = `
  UPDATE job_queue SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, started_at = ${now},
    lease_ends_at = ${now} + 30000, worker_id = 'raw'
  WHERE id = ANY (ARRAY (
    SELECT id FROM job_queue WHERE queue = 'default' AND state = 'ready' AND run_at <= ${now}
    ORDER BY priority DESC, run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED))
  RETURNING id, payload, lease_no`

const ack = `
  WITH gone AS (
    DELETE FROM job_queue WHERE id = $1 AND lease_no = $2 AND lease_ends_at > ${now} RETURNING *
  )
  INSERT INTO job_history
  SELECT id, queue, kind, payload, priority, 'completed', attempt, max_attempts, run_at, created_at, started_at,
    worker_id, ${now}
  FROM gone`

interface Claimed {
  readonly id: string
  readonly payload: string
  readonly lease_no: string
}

export async function rawPostgresTransactions(
  url: string,
  numbers: readonly number[],
): Promise<() => Promise<void>> {
  const clients = await connect(url, 10)
  const dispatcher = new Client(url)
  await dispatcher.connect()
  await dispatcher.query(tables)
  const payloads = numbers.map((number) => JSON.stringify({ number }))
  await dispatcher.query(add, [rawIds(numbers.length), payloads])

  const held = createHeld<Claimed>(async () => {
    const { rows } = await dispatcher.query({ name: 'claim', text: claim, values: [batch] })
    return rows
  })
  return async () => {
    await Promise.all(
      clients.map(async (client) => {
        for (let job = await held(); job; job = await held()) {
          await client.query('BEGIN')
          await client.query({
            name: 'pay',
            text: 'INSERT INTO payment (order_id, amount) VALUES ($1, 100)',
            values: [JSON.parse(job.payload).number],
          })
          const { rowCount } = await client.query({ name: 'ack', text: ack, values: [job.id, job.lease_no] })
          if (rowCount !== 1) throw new Error(`The lease of ${job.id} is lost.`)
          await client.query('COMMIT')
        }
      }),
    )
    await Promise.all([dispatcher, ...clients].map((client) => client.end()))
  }
}

/** Five round trips: it has no DELETE … RETURNING into another table, so the ack is two statements. */
export async function rawMariadbTransactions(
  url: string,
  numbers: readonly number[],
): Promise<() => Promise<void>> {
  const [dispatcher, ...connections] = await connectMariadb(url, 11)
  for (const sql of rawMariadbTables) await dispatcher!.query(sql)
  await rawMariadbAdd(dispatcher!, numbers)
  const held = createHeld(() => rawMariadbClaim(dispatcher!, batch))
  return async () => {
    await Promise.all(
      connections.map(async (connection) => {
        for (let job = await held(); job; job = await held()) {
          await connection.query('START TRANSACTION')
          await connection.query('INSERT INTO payment (order_id, amount) VALUES (?, 100)', [
            JSON.parse(job.payload).number,
          ])
          await rawMariadbAck(connection, [job.id])
          await connection.query('COMMIT')
        }
      }),
    )
    await Promise.all([dispatcher!, ...connections].map((connection) => connection.end()))
  }
}

export async function rawSqliteTransactions(
  url: string,
  numbers: readonly number[],
  synchronous: 'FULL' | 'NORMAL',
): Promise<() => Promise<void>> {
  const raw = new RawSqlite(url, synchronous)
  raw.addMany(numbers)
  const pay = raw.database.prepare('INSERT INTO payment (order_id, amount) VALUES (?, 100)')
  return async () => {
    for (let jobs = raw.claim(batch); jobs.length > 0; jobs = raw.claim(batch)) {
      for (const job of jobs) {
        raw.begin()
        pay.run(JSON.parse(job.payload).number)
        raw.ack(job.id)
        raw.commit()
      }
    }
    raw.database.close()
  }
}

/** Jobs in hand, fetched for all takers at once; undefined when there are no more. */
function createHeld<Job>(fetch: () => Promise<Job[]>): () => Promise<Job | undefined> {
  let jobs: Job[] = []
  let fetching: Promise<void> | undefined
  return async () => {
    if (jobs.length === 0) {
      fetching ??= fetch().then((found) => {
        jobs = found.reverse()
        fetching = undefined
      })
      await fetching
    }
    return jobs.pop()
  }
}
