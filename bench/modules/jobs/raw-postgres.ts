/**
 * The limit on Postgres: the plainest SQL that does the same durable work as a claim, an ack and a history row for
 * each job, on Signalbox's own tables. A claim moves up to 500 waiting rows into one lease row; an ack turns that
 * lease into history rows. Two connections take turns, so that one works while the other's commit goes to disk. It may
 * leave out features (unique keys, pauses, retries, renewals, cancellation), never durability, order or the lease.
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { migrationsFor } from '../../../src/storage/postgres/migrations/index.ts'
import type { Lane, LaneWorker } from './lane.ts'

const batch = 500
const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

const add = `
  INSERT INTO job_pending (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, hand_back_count,
    snooze_count, run_at, created_at, updated_at)
  SELECT 'raw', j.id, 'default', 'noop', j.payload, 0, 'ready', 0, 5, 0, 0, c.now, c.now, c.now
  FROM (SELECT ${now} AS now) c, unnest($1::text[], $2::text[]) AS j (id, payload)`

/** The plans Signalbox asks for: a queue never wants a scan of the whole table, however small it once was. */
const options = '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off'

/** The list of ids is materialized: a sub-query with LIMIT that runs again would take more than it says. */
const claim = `
  WITH picked AS MATERIALIZED (
    SELECT id FROM job_pending
    WHERE namespace = 'raw' AND queue = 'default' AND state = 'ready' AND run_at <= ${now}
    ORDER BY (-priority::bigint), run_at, id
    LIMIT ${batch}
    FOR UPDATE SKIP LOCKED
  ), taken AS (
    DELETE FROM job_pending p USING picked WHERE p.namespace = 'raw' AND p.id = picked.id RETURNING p.*
  ), lease AS (
    INSERT INTO job_lease (lease_no, namespace, nonce, worker_id, claimed_at, ends_at, job_count, jobs)
    SELECT nextval('job_lease_no'), 'raw', $1, 'raw', ${now}, ${now} + 30000, count(*), array_agg(ROW(id, queue, kind,
      payload, priority, unique_key, attempt + 1, max_attempts, hand_back_count, snooze_count, run_at, created_at,
      backoff, timeout_ms, result, error, meta)::leased_job)
    FROM taken HAVING count(*) > 0
    RETURNING lease_no
  )
  SELECT lease.lease_no, taken.id, taken.payload FROM taken, lease`

const ack = `
  WITH lease AS (
    DELETE FROM job_lease WHERE lease_no = $1 AND nonce = $2 AND ends_at > ${now} RETURNING *
  )
  INSERT INTO job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored)
  SELECT lease.namespace, j.id, j.queue, j.kind, j.payload, j.priority, j.unique_key, 'completed', j.attempt,
    j.max_attempts, j.hand_back_count, j.snooze_count, j.run_at, j.created_at, lease.claimed_at, c.now, lease.worker_id,
    lease.lease_no, j.backoff, j.timeout_ms, j.result, j.error, false
  FROM (SELECT ${now} AS now) c, lease, unnest(lease.jobs) j`

let lastId = 0

/** Ids as long as ours, and rising as ours do. */
export function rawIds(count: number): string[] {
  return Array.from({ length: count }, () => `${++lastId}`.padStart(26, '0'))
}

export async function rawPostgresLane(url: string): Promise<Lane> {
  const adders = await connect(url, 4)
  for (const { statements } of migrationsFor('public')) {
    for (const sql of statements) await adders[0]!.query(sql)
  }
  let turn = 0
  const addMany = async (numbers: readonly number[]): Promise<void> => {
    const payloads = numbers.map((number) => JSON.stringify({ number }))
    const adder = adders[turn++ % adders.length]!
    await adder.query({ name: 'add', text: add, values: [rawIds(numbers.length), payloads] })
  }
  return {
    addMany,
    add: (number) => addMany([number]),
    work: (handle, fail) => work(url, handle, fail),
    async isEmpty() {
      const { rows } = await adders[0]!.query(
        `SELECT NOT EXISTS (SELECT FROM job_pending) AND NOT EXISTS (SELECT FROM job_lease) AS empty`,
      )
      return rows[0].empty
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(adders.map((client) => client.end()))
    },
  }
}

async function work(url: string, ...[handle, fail]: Parameters<Lane['work']>): Promise<LaneWorker> {
  const clients = await connect(url, 2)
  let isStopped = false
  const loops = clients.map(async (client) => {
    while (!isStopped) {
      const nonce = randomBytes(8).toString('hex')
      const { rows } = await client.query({ name: 'claim', text: claim, values: [nonce] })
      if (rows.length === 0) {
        await new Promise((wake) => setTimeout(wake, 5))
        continue
      }
      for (const row of rows) handle(JSON.parse(row.payload).number)
      const { rowCount } = await client.query({ name: 'ack', text: ack, values: [rows[0].lease_no, nonce] })
      if (rowCount !== rows.length) throw new Error('The lease is lost.')
    }
  })
  Promise.all(loops).catch(fail)
  return {
    async stop() {
      isStopped = true
      await Promise.all(loops)
      await Promise.all(clients.map((client) => client.end()))
    },
  }
}

export async function connect(url: string, count: number): Promise<Client[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const client = new Client({ connectionString: url, options })
      await client.connect()
      return client
    }),
  )
}
