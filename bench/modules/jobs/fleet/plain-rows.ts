/**
 * The limit for a fleet on Postgres: one row for each job, changed in place by a claim and moved to the history by an ack, in
 * the plainest SQL, with a small worker around it. It may leave out features (limits, pauses, retries, renewals), never
 * durability, order, the lease or the history.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { type Lane, type LaneWorker, type OpenLane, payloadOf } from '../lane.ts'
import { rawIds } from '../raw/raw-postgres.ts'

const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
const text = 'text COLLATE "C"'

const tables = `
CREATE TABLE IF NOT EXISTS plain_queue (
  id ${text} PRIMARY KEY, queue ${text} NOT NULL, kind ${text} NOT NULL, payload text NOT NULL, priority integer NOT NULL,
  unique_key ${text}, state ${text} NOT NULL, attempt integer NOT NULL, max_attempts integer NOT NULL, run_at bigint NOT NULL,
  created_at bigint NOT NULL, started_at bigint, worker_id text, lease_no bigint, lease_nonce text, lease_ends_at bigint,
  error text, meta text);
CREATE INDEX IF NOT EXISTS plain_queue_ready ON plain_queue (queue, (-priority::bigint), run_at, id) WHERE state = 'ready';
CREATE INDEX IF NOT EXISTS plain_queue_scheduled ON plain_queue (queue, run_at) WHERE state = 'scheduled';
CREATE INDEX IF NOT EXISTS plain_queue_running ON plain_queue (lease_ends_at) WHERE state = 'running';
CREATE UNIQUE INDEX IF NOT EXISTS plain_queue_unique ON plain_queue (queue, unique_key) WHERE unique_key IS NOT NULL;
CREATE TABLE IF NOT EXISTS plain_history (
  id ${text} PRIMARY KEY, queue ${text} NOT NULL, kind ${text} NOT NULL, payload text NOT NULL, priority integer NOT NULL,
  unique_key ${text}, state ${text} NOT NULL, attempt integer NOT NULL, max_attempts integer NOT NULL, run_at bigint NOT NULL,
  created_at bigint NOT NULL, started_at bigint, finished_at bigint NOT NULL, worker_id text, lease_no bigint,
  error text, meta text);
CREATE INDEX IF NOT EXISTS plain_history_failed ON plain_history (state, queue, id) WHERE state <> 'completed'`

const add = `
INSERT INTO plain_queue (id, queue, kind, payload, priority, state, attempt, max_attempts, run_at, created_at)
SELECT j.id, 'default', 'noop', j.payload, 0, 'ready', 0, 5, c.now, c.now
FROM (SELECT ${now} AS now) c, unnest($1::text[], $2::text[]) AS j (id, payload)`

const claim = `
WITH picked AS MATERIALIZED (
  SELECT id FROM plain_queue WHERE queue = 'default' AND state = 'ready' AND run_at <= ${now}
  ORDER BY (-priority::bigint), run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE plain_queue q SET state = 'running', attempt = attempt + 1, started_at = ${now}, worker_id = 'plain', lease_no = $2,
  lease_nonce = $3, lease_ends_at = ${now} + 30000
FROM picked WHERE q.id = picked.id RETURNING q.id, q.payload, q.lease_no`

const ack = `
WITH verdict AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS v (id, lease_no)),
gone AS (
  DELETE FROM plain_queue q USING verdict v
  WHERE q.id = v.id AND q.state = 'running' AND q.lease_no = v.lease_no AND q.lease_nonce = $3 AND q.lease_ends_at > ${now}
  RETURNING q.*
)
INSERT INTO plain_history (id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts, run_at, created_at,
  started_at, finished_at, worker_id, lease_no, error, meta)
SELECT id, queue, kind, payload, priority, unique_key, 'completed', attempt, max_attempts, run_at, created_at, started_at, ${now},
  worker_id, lease_no, error, meta
FROM gone`

/** The plans Signalbox asks for: see raw-postgres.ts. */
const options =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan'

interface Claimed {
  readonly id: string
  readonly payload: string
  readonly lease_no: string
}

type Handle = (number: number) => void | Promise<void>

/** `concurrency` handlers at once, and up to `prefetch` claimed jobs beside them. */
export function plainRowsLane(concurrency: number, prefetch: number): OpenLane {
  return async (url): Promise<Lane> => {
    const connect = async (): Promise<Client> => {
      const client = new Client({ connectionString: url, options })
      await client.connect()
      return client
    }
    const [main, adding, claiming, acking] = await Promise.all([connect(), connect(), connect(), connect()])
    await main.query('SELECT pg_advisory_lock(1)')
    await main.query(tables)
    await main.query('SELECT pg_advisory_unlock(1)')
    const addMany = async (numbers: readonly number[], filler?: string): Promise<void> => {
      const payloads = numbers.map((number) => JSON.stringify(payloadOf(number, filler)))
      await adding.query({ name: 'add', text: add, values: [rawIds(numbers.length), payloads] })
    }
    return {
      addMany,
      add: (number) => addMany([number]),
      work: async (handle) => new PlainWorker({ claiming, acking, concurrency, prefetch, handle }),
      async isEmpty() {
        return (await main.query('SELECT FROM plain_queue LIMIT 1')).rowCount === 0
      },
      async [Symbol.asyncDispose]() {
        for (const client of [main, adding, claiming, acking]) await client.end()
      },
    }
  }
}

interface PlainWorkerParts {
  readonly claiming: Client
  readonly acking: Client
  readonly concurrency: number
  readonly prefetch: number
  readonly handle: Handle
}

/** Claims when a quarter of what it may hold is free; acks everything that ended while the last ack was under way. */
class PlainWorker implements LaneWorker {
  readonly #parts: PlainWorkerParts
  readonly #nonce = randomBytes(8).toString('hex')
  #leaseCount = 0
  #claimed: Claimed[] = []
  #ended: Claimed[] = []
  #running = 0
  #isClaiming = false
  #isAcking = false
  #isStopping = false

  constructor(parts: PlainWorkerParts) {
    this.#parts = parts
    void this.#fetch()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    while (this.#running > 0 || this.#ended.length > 0 || this.#isAcking || this.#isClaiming) await sleep(1)
  }

  async #fetch(): Promise<void> {
    const { claiming, concurrency, prefetch } = this.#parts
    const most = concurrency + prefetch
    while (!this.#isStopping && !this.#isClaiming) {
      const free = most - this.#running - this.#claimed.length
      if (free < most / 4) return
      this.#isClaiming = true
      const values = [free, ++this.#leaseCount, this.#nonce]
      const { rows } = await claiming.query<Claimed>({ name: 'claim', text: claim, values })
      this.#isClaiming = false
      this.#claimed.push(...rows)
      this.#start()
      if (rows.length === 0) await sleep(20)
    }
  }

  #start(): void {
    while (this.#running < this.#parts.concurrency && this.#claimed.length > 0) {
      this.#running++
      void this.#run(this.#claimed.shift()!)
    }
  }

  async #run(job: Claimed): Promise<void> {
    await this.#parts.handle((JSON.parse(job.payload) as { number: number }).number)
    this.#running--
    this.#ended.push(job)
    void this.#ack()
    this.#start()
    void this.#fetch()
  }

  async #ack(): Promise<void> {
    if (this.#isAcking) return
    this.#isAcking = true
    // The handlers that end in the same turn go together.
    await Promise.resolve()
    while (this.#ended.length > 0) {
      const batch = this.#ended
      this.#ended = []
      const values = [batch.map(({ id }) => id), batch.map((job) => job.lease_no), this.#nonce]
      await this.#parts.acking.query({ name: 'ack', text: ack, values })
    }
    this.#isAcking = false
  }
}
