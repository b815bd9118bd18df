/**
 * The limit on Postgres: the plainest SQL that does the same durable work as a claim, an ack and a history row for
 * each job, on Signalbox's own tables. A claim marks up to 500 ready rows; an ack moves them to the history. Two connections take turns, so that one works while the other's commit goes to disk. It may
 * leave out features (unique keys, pauses, retries, renewals, cancellation), never durability, order or the lease.
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { migrationsFor } from '../../../../src/storage/postgres/schema.ts'
import type { Lane, LaneWorker } from '../lane.ts'

const batch = 500
const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

const add = `
  INSERT INTO job_queue (namespace, id, queue, kind, payload, priority, state, max_attempts, run_at, created_at, updated_at)
  SELECT 'raw', j.id, 'default', 'noop', j.payload, 0, 'ready', 5, c.now, c.now, c.now
  FROM (SELECT ${now} AS now) c, unnest($1::text[], $2::text[]) AS j (id, payload)`

/** The plans Signalbox asks for: a queue never wants a scan of the whole table, however small it once was. */
const options = '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off'

/** The places are locked, so they cannot move; the list is materialized, because a LIMIT that runs again takes more. */
const claim = `
  WITH picked AS MATERIALIZED (
    SELECT ctid AS place FROM job_queue
    WHERE namespace = 'raw' AND queue = 'default' AND state = 'ready' AND (limit_key IS NOT NULL) = false
    ORDER BY (-priority::bigint), run_at, id
    LIMIT ${batch}
    FOR UPDATE SKIP LOCKED
  )
  UPDATE job_queue SET state = 'running', attempt = attempt + 1, started_at = ${now}, updated_at = ${now}, worker_id = 'raw',
    lease_no = lease_no + 1, lease_nonce = $1, lease_ends_at = ${now} + 30000
  WHERE ctid = ANY (ARRAY (SELECT place FROM picked))
  RETURNING id, payload`

const ack = `
  WITH gone AS (
    DELETE FROM job_queue q USING unnest($1::text[]) v (id)
    WHERE q.namespace = 'raw' AND q.id = v.id AND q.state = 'running' AND q.lease_nonce = $2 AND q.lease_ends_at > ${now}
    RETURNING q.*
  )
  INSERT INTO job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, lease_nonce, backoff,
    timeout_ms, cancel_ignored)
  SELECT namespace, id, queue, kind, payload, priority, unique_key, 'completed', attempt, max_attempts, hand_back_count,
    snooze_count, run_at, created_at, started_at, ${now}, worker_id, lease_no, lease_nonce, backoff, timeout_ms, false
  FROM gone`

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
      const { rows } = await adders[0]!.query('SELECT NOT EXISTS (SELECT FROM job_queue) AS empty')
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
      const { rowCount } = await client.query({
        name: 'ack',
        text: ack,
        values: [rows.map(({ id }) => id), nonce],
      })
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
