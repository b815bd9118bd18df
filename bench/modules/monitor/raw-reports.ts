/**
 * The limit on Postgres: the queries that a report must make, on Signalbox's own tables, and nothing besides. For each
 * hundred venues it reads what is known of them, then in one transaction raises their versions, where they are those that
 * were read, and for the one that changed writes its event, window, decision, notification and job. Ten batches are under
 * way at once. Statements that need no answer first go out together.
 *
 * It computes no digests, decides nothing and knows no rules; it never leaves out durability or the condition.
 */
import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { migrationsFor } from '../../../src/storage/postgres/schema.ts'

const batchSize = 100
const concurrency = 10
const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
/** The plans Signalbox asks for. */
const options = '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off'
const hash = (): string => randomBytes(32).toString('hex')

interface Subject {
  readonly subject: string
  readonly venueId: string
  state: string
  stateHash: string
}

/** A hundred subjects, one of them changed; with the ids of the rows for it. */
interface Batch {
  readonly subjects: readonly Subject[]
  readonly changed: Subject
  readonly ids: readonly string[]
  readonly event: string
}

export class RawReports implements AsyncDisposable {
  readonly #clients: readonly Client[]
  readonly #subjects: readonly Subject[]
  #reportCount = 0
  #lastId = 0

  static async open(url: string, venueCount: number): Promise<RawReports> {
    const clients = Array.from(
      { length: concurrency },
      () => new Client({ connectionString: url, options, pipeline: true }),
    )
    await Promise.all(clients.map((client) => client.connect()))
    for (const { statements } of migrationsFor('public'))
      for (const sql of statements) await clients[0]!.query(sql)
    const subjects = Array.from({ length: venueCount }, (_, at) => ({
      subject: hash(),
      venueId: `venue-${at}`,
      state: stateOf(0),
      stateHash: hash(),
    }))
    await clients[0]!.query(insertSubjects, [
      subjects.map(({ subject }) => subject),
      subjects.map(({ venueId }) => venueId),
      subjects.map(({ state }) => state),
      subjects.map(({ stateHash }) => stateHash),
    ])
    return new RawReports(clients, subjects)
  }

  private constructor(clients: readonly Client[], subjects: readonly Subject[]) {
    this.#clients = clients
    this.#subjects = subjects
  }

  /** The next report. */
  prepare(): readonly Batch[] {
    const nr = ++this.#reportCount
    const batches: Batch[] = []
    for (let from = 0; from < this.#subjects.length; from += batchSize) {
      const subjects = this.#subjects.slice(from, from + batchSize)
      const changed = subjects[nr % batchSize]!
      changed.state = stateOf(nr)
      changed.stateHash = hash()
      const ids = Array.from({ length: 3 }, () => `${++this.#lastId}`.padStart(26, '0'))
      batches.push({ subjects, changed, ids, event: hash() })
    }
    return batches
  }

  async write(batches: readonly Batch[]): Promise<void> {
    const task = `task-${this.#reportCount}`
    const [first] = this.#clients
    await first!.query({ name: 'task', text: claimTask, values: [task] })
    const rest = batches.values()
    await Promise.all(
      this.#clients.map(async (client) => {
        for (const batch of rest) await writeBatch(client, batch)
      }),
    )
    await first!.query({ name: 'task_done', text: endTask, values: [task] })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.end()))
  }
}

async function writeBatch(client: Client, { subjects, changed, ids, event }: Batch): Promise<void> {
  const query = (name: string, text: string, values: unknown[]) => client.query({ name, text, values })
  const keys = subjects.map(({ subject }) => subject)
  const { rows } = await query('known', readSubjects, [keys])
  const known = new Map(rows.map((row) => [row.subject, row]))
  const differing = subjects.filter(({ subject, stateHash }) => known.get(subject).state_hash !== stateHash)
  if (differing.length !== 1 || differing[0] !== changed) throw new Error(`${differing.length} differ`)

  const versions = keys.map((subject) => known.get(subject).version)
  const { subject, venueId, state, stateHash } = changed
  const { state: from, state_hash: fromHash } = known.get(subject)
  const [decision, notification, job] = ids
  const [, updated, , claimed] = await Promise.all([
    client.query('BEGIN'),
    query('seen', updateSubjects, [keys, versions]),
    query('changed', updateChanged, [subject, state, stateHash]),
    query('event', claimEvent, [event]),
    query('window', reserve, [subject, stateHash, notification]),
    query('decide', decide, [decision, subject, venueId, fromHash, stateHash, from, state, event]),
    query('notify', notify, [notification, subject, venueId, decision, event, from, state, stateHash]),
    query('job', addJob, [job]),
  ])
  if (updated.rowCount !== subjects.length || claimed.rowCount !== 1)
    throw new Error('another writer was quicker')
  await client.query('COMMIT')
}

function stateOf(nr: number): string {
  return JSON.stringify({ free: nr, rest: 'x'.repeat(165) })
}

const recall = JSON.stringify({ baseline: '0'.repeat(64) })

const insertSubjects = `
  INSERT INTO monitor_subject (namespace, subject, source, time_slot, venue_id, version, state, state_hash, observed_at,
    changed_at, memory)
  SELECT 'raw', g.subject, 'bench', '2025-06-01', g.venue_id, 1, g.state, g.state_hash, 1, 1, '${recall}'
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) g (subject, venue_id, state, state_hash)
  ORDER BY g.subject COLLATE "C"`

const readSubjects = `
  SELECT subject, version, state, state_hash, observed_at, changed_at, memory
  FROM monitor_subject WHERE namespace = 'raw' AND subject = ANY ($1::text[])`

const updateSubjects = `
  UPDATE monitor_subject k SET version = k.version + 1, observed_at = k.observed_at + 1
  FROM unnest($1::text[], $2::bigint[]) g (subject, version)
  WHERE k.namespace = 'raw' AND k.subject = g.subject AND k.version = g.version`

const updateChanged = `
  UPDATE monitor_subject SET state = $2, state_hash = $3, changed_at = ${now}
  WHERE namespace = 'raw' AND subject = $1`

const claimGuard = (space: string, status: string, restMs: number): string => `
  INSERT INTO once_guard (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce, claimed_at, keep_ms,
    ends_at)
  VALUES ('raw', '${space}', $1, '${status}', 'at-least-once', 1, ${now}, '0123456789abcdef', ${now}, 300000,
    ${now} + ${restMs})
  ON CONFLICT DO NOTHING`
const claimEvent = claimGuard('monitor.event', 'done', 300_000)
const claimTask = claimGuard('monitor.task', 'running', 30_000)

const endTask = `
  UPDATE once_guard SET status = 'done', ends_at = ${now} + keep_ms
  WHERE namespace = 'raw' AND space = 'monitor.task' AND guard_key = $1`

const reserve = `
  INSERT INTO monitor_window (namespace, subject, subscription_id, state_hash, status, notification_id)
  VALUES ('raw', $1, 'subscription', $2, 'pending', $3)`

const decide = `
  INSERT INTO monitor_decision (namespace, id, subject, source, time_slot, venue_id, task_id, reason, from_hash, to_hash,
    from_text, to_text, event_id, observed_at, verdicts, decided_at)
  VALUES ('raw', $1, $2, 'bench', '2025-06-01', $3, 'task', 'changed', $4, $5, $6, $7, $8, 1, '[]', ${now})`

const notify = `
  INSERT INTO monitor_notification (namespace, id, subscription_id, channel, subject, source, time_slot, venue_id,
    decision_id, event_id, kind, from_state, to_state, state_hash, window_ms, max_attempts, due_at, status, attempt,
    created_at, possible_repeat)
  VALUES ('raw', $1, 'subscription', '${'0'.repeat(64)}', $2, 'bench', '2025-06-01', $3, $4, $5, 'change', $6, $7, $8,
    300000, 4, ${now}, 'pending', 0, ${now}, false)`

const addJob = `
  INSERT INTO job_queue (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, hand_back_count,
    snooze_count, run_at, created_at, updated_at)
  VALUES ('raw', $1, 'signalbox.notify', 'send', '{"channel":"${'0'.repeat(64)}"}', 0, 'ready', 0, 1000, 0, 0, ${now}, ${now},
    ${now})`
