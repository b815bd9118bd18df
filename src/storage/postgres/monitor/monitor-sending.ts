import type { NewJob } from '../../../jobs/index.ts'
import type {
  ChannelRef,
  DueAnswer,
  MonitorStore,
  SendingStep,
  TakeAsk,
  Taken,
} from '../../../monitor/monitor-store.ts'
import { decodeNotification, type NotificationRow } from '../../sql/monitor-row.ts'
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import { PostgresJobs } from '../jobs/jobs.ts'
import type { Space } from '../jobs/namespace-memory.ts'
import { transact } from './monitor-transaction.ts'

/**
 * Channels and what goes through them. A step is one statement: `take` and `letGo` are decided on the channel's row, so
 * that word left for a sender is seen by it or finds the channel free, and `proceed` is a function of the schema's.
 */
export class MonitorSending implements Pick<MonitorStore, 'take' | 'due' | 'proceed' | 'letGo' | 'replay'> {
  readonly #connections: Connections
  readonly #space: Space
  readonly #statements: SendingStatements

  constructor(connections: Connections, space: Space, schema: string) {
    this.#connections = connections
    this.#space = space
    this.#statements = sendingStatements(schema)
  }

  async take({ channel, token, leaseMs }: TakeAsk): Promise<Taken> {
    const values = [this.#space.namespace, channel, token, leaseMs]
    const { rows } = await this.#connections.run<TakenRow>(this.#statements.take, values)
    const { taken, now, state } = rows[0]!
    return taken ? { taken, now: Number(now), state } : { taken }
  }

  async due({ channel, token }: ChannelRef, limit: number): Promise<DueAnswer | undefined> {
    const values = [this.#space.namespace, channel, token, limit]
    const { rows } = await this.#connections.run<DueRow>(this.#statements.due, values)
    const [first] = rows
    if (!first) return undefined
    return {
      now: Number(first.now),
      items: rows.flatMap((row) => (row.id === null ? [] : [decodeNotification(row as NotificationRow)])),
      nextAt: first.next_at === null ? null : Number(first.next_at),
    }
  }

  async proceed({ channel, token }: ChannelRef, step: SendingStep): Promise<boolean> {
    const { leaseMs, state, ends, begin } = step
    const { rows } = await this.#connections.run<{ ours: boolean }>(this.#statements.proceed, [
      this.#space.namespace,
      channel,
      token,
      leaseMs,
      state,
      ends.map(({ id }) => id),
      ends.map(({ outcome }) => outcome),
      ends.map(({ afterMs = 0 }) => afterMs),
      ends.map(({ free = false }) => free),
      ends.map(({ error }) => error),
      ends.map(({ digestId }) => digestId),
      begin.map(({ id }) => id),
      begin.map(({ repeat }) => repeat),
    ])
    return rows[0]!.ours
  }

  async letGo({ channel, token }: ChannelRef): Promise<'released' | 'wanted' | 'lost'> {
    const values = [this.#space.namespace, channel, token]
    const { rows } = await this.#connections.run<{ released: boolean }>(this.#statements.letGo, values)
    if (!rows[0]) return 'lost'
    return rows[0].released ? 'released' : 'wanted'
  }

  replay(id: string, job: NewJob): Promise<boolean> {
    return transact(
      this.#connections,
      async (tx) => {
        const { rowCount } = await tx.run(this.#statements.replay, [this.#space.namespace, id])
        if (rowCount === 0) return false
        await new PostgresJobs(this.#connections, this.#space, tx).add([job])
        return true
      },
      (isReplayed) => isReplayed,
    )
  }
}

interface TakenRow {
  readonly taken: boolean
  readonly now: string
  readonly state: string | null
}

type DueRow = { readonly [Column in keyof NotificationRow]: NotificationRow[Column] | null } & {
  readonly now: string
  readonly next_at: string | null
}

type SendingStatements = Record<'take' | 'due' | 'proceed' | 'letGo' | 'replay', Statement>

function sendingStatements(s: string): SendingStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_monitor_${name}`, text })
  const isUnsettled = `n.status IN ('pending', 'sending')`
  return {
    take: named(
      'take',
      `
INSERT INTO ${s}.monitor_channel AS c (namespace, channel, token, lease_ends_at, wanted, state)
VALUES ($1, $2, $3, ${nowMs} + $4::bigint, false, NULL)
ON CONFLICT (namespace, channel) DO UPDATE SET (token, lease_ends_at, wanted) = (
  SELECT CASE WHEN found.free THEN excluded.token ELSE c.token END,
         CASE WHEN found.free THEN excluded.lease_ends_at ELSE c.lease_ends_at END, NOT found.free
  FROM (SELECT c.token IS NULL OR c.token = excluded.token OR c.lease_ends_at <= ${nowMs} AS free) found
)
RETURNING c.token = $3 AS taken, ${nowMs} AS now, c.state`,
    ),
    // In the order of ids, each looked up in the line of its subject: as far as it takes to find enough. Without a name,
    // so that it is planned each time: a plan made for a short line is ruinous for a long one.
    due: {
      name: '',
      text: `
SELECT mine.now, mine.next_at, found.*
FROM (
  SELECT clock.now, (
           SELECT min(n.due_at) FROM ${s}.monitor_notification n
           WHERE n.namespace = $1 AND n.channel = $2 AND ${isUnsettled} AND n.due_at > clock.now
         ) AS next_at
  FROM (SELECT ${nowMs} AS now) clock, ${s}.monitor_channel c
  WHERE c.namespace = $1 AND c.channel = $2 AND c.token = $3 AND c.lease_ends_at > clock.now OFFSET 0
) mine
LEFT JOIN LATERAL (
  SELECT n.* FROM (
    SELECT * FROM ${s}.monitor_notification n
    WHERE n.namespace = $1 AND n.channel = $2 AND ${isUnsettled} ORDER BY n.id OFFSET 0
  ) n
  WHERE n.due_at <= mine.now AND n.id = (
    SELECT e.id FROM ${s}.monitor_notification e
    WHERE e.namespace = $1 AND e.channel = $2 AND e.subject = n.subject AND e.status IN ('pending', 'sending')
    ORDER BY e.id LIMIT 1
  )
  ORDER BY n.id LIMIT $4
) found ON true
ORDER BY found.id`,
    },
    proceed: named(
      'proceed',
      `
SELECT ${s}.signalbox_proceed($1, $2, $3, $4::bigint, $5, $6::text[], $7::text[], $8::bigint[], $9::boolean[],
  $10::text[], $11::text[], $12::text[], $13::boolean[]) AS ours`,
    ),
    letGo: named(
      'let_go',
      `
UPDATE ${s}.monitor_channel SET token = CASE WHEN wanted THEN token END, wanted = false
WHERE namespace = $1 AND channel = $2 AND token = $3 AND lease_ends_at > ${nowMs}
RETURNING token IS NULL AS released`,
    ),
    replay: named(
      'replay',
      `
WITH again AS (
  UPDATE ${s}.monitor_notification SET status = 'pending', attempt = 0, due_at = ${nowMs}, finished_at = NULL,
    possible_repeat = possible_repeat OR status = 'held'
  WHERE namespace = $1 AND id = $2 AND status IN ('dead', 'held')
  RETURNING subject, subscription_id, state_hash, id
),
reserved AS (
  INSERT INTO ${s}.monitor_window (namespace, subject, subscription_id, state_hash, status, notification_id)
  SELECT $1, subject, subscription_id, state_hash, 'pending', id FROM again
  ON CONFLICT (namespace, subject, subscription_id, state_hash) DO UPDATE SET status = excluded.status,
    notification_id = excluded.notification_id, ends_at = NULL
)
SELECT id FROM again`,
    ),
  }
}
