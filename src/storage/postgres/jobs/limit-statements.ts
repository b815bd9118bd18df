import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { claimedColumns, handOut, order } from './hand-out.ts'

/**
 * The statements of a claim from a queue with limits, in the order they are sent. The claim that has the queue's row sends all
 * behind `rule`. Each sees what was committed before it began, so all that the last claim to have the row did.
 */
export interface LimitStatements {
  /** Which of the queues have jobs, by the order of their first ones: no claim locks the row of an idle queue. */
  readonly ready: Statement
  /** Locks the queue's row, and waits for it for half a second at most. */
  readonly rule: Statement
  /** Counts what runs and what has started lately in the queue. */
  readonly count: Statement
  /** Locks the first ready jobs: a number without a key, and a number with one. */
  readonly front: Statement
  /** The first job of each key, from a key on and round. */
  readonly heads: Statement
  /** Locks the first jobs of some keys. */
  readonly ofKeys: Statement
  /** Removes starts that count no more. */
  readonly forgetStarts: Statement
  readonly keepStarts: Statement
  readonly keepPosition: Statement
  readonly take: Statement
}

/** What the queue's row says. */
export interface RuleRow extends Record<string, unknown> {
  readonly limits: string
  readonly key_position: string | null
}

export interface CountRow extends Record<string, unknown> {
  /** How many run, by key. In JSON, as rows by the thousand cost this process more than the rest of a claim. */
  readonly running: Readonly<Record<string, number>> | null
  readonly starts: string | null
  readonly now: string
}

/** The first job of a key, and the recorded starts of that key. */
export interface HeadRow extends Record<string, unknown> {
  readonly limit_key: string
  readonly kind: string
  readonly priority: number
  readonly run_at: string
  readonly id: string
  readonly starts: string | null
}

/** A job that was locked. `front` also answers the recorded starts of its key. */
export interface LockedRow extends Record<string, unknown> {
  readonly place: string
  readonly id: string
  readonly limit_key: string | null
  readonly priority: number
  readonly run_at: string
  readonly starts?: string | null
}

export const limitStatements: (schema: string) => LimitStatements = perSchema((s) => {
  const named = (name: string, text: string): Statement => ({ name: `sb_limit_${name}`, text })
  const ready = `p.namespace = $1 AND p.queue = $2 AND p.state = 'ready'`
  const eligible = `${ready} AND ($3::text[] IS NULL OR p.kind = ANY ($3))`
  const columns = 'p.ctid AS place, p.id, p.limit_key, p.priority, p.run_at'
  const startsOf = (key: string) => `CASE WHEN $5::boolean THEN (
         SELECT r.starts FROM ${s}.job_rate r WHERE r.namespace = $1 AND r.queue = $2 AND r.limit_key = ${key}) END AS starts`
  const nextKey = (condition: string, isRound: string) => `
    (SELECT p.limit_key, p.kind, p.priority, p.run_at, p.id, ${isRound} AS is_round FROM ${s}.job_queue p
     WHERE ${ready} AND p.limit_key IS NOT NULL AND ${condition} ORDER BY p.limit_key, ${order} LIMIT 1)`
  return {
    ready: named(
      'ready',
      `
SELECT q.queue FROM unnest((SELECT $2::text[])) q (queue) CROSS JOIN LATERAL (
  SELECT f.* FROM (VALUES (false), (true)) k (has_key) CROSS JOIN LATERAL (
    SELECT p.priority, p.run_at, p.id FROM ${s}.job_queue p
    WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = 'ready' AND (p.limit_key IS NOT NULL) = k.has_key
    ORDER BY ${order} LIMIT 1
  ) f ORDER BY -f.priority::bigint, f.run_at, f.id LIMIT 1
) p
ORDER BY ${order}`,
    ),
    rule: named(
      'rule',
      `
WITH wait AS MATERIALIZED (SELECT set_config('lock_timeout', '500ms', true) AS ms)
SELECT c.limits, c.key_position FROM wait, ${s}.queue_control c
WHERE wait.ms IS NOT NULL AND c.namespace = $1 AND c.queue = $2 AND c.limits IS NOT NULL AND c.paused_at IS NULL
FOR UPDATE OF c`,
    ),
    // A lease that ran out was taken back before this, unless its row is locked: then it counts. The time is read when what is
    // counted can be seen: jobs that are taken begin then, after those that count no more had ended.
    count: named(
      'count',
      `
SELECT (SELECT json_object_agg(r.limit_key, r.running) FROM (
         SELECT coalesce(q.limit_key, '') AS limit_key, count(*) AS running FROM ${s}.job_queue q
         WHERE q.namespace = $1 AND q.queue = $2 AND q.state = 'running' GROUP BY 1) r) AS running,
       (SELECT starts FROM ${s}.job_rate WHERE namespace = $1 AND queue = $2 AND limit_key = '') AS starts,
       ${nowMs} AS now`,
    ),
    front: named(
      'front',
      `
SELECT c.*, ${startsOf('c.limit_key')}
FROM (VALUES (false), (true)) k (has_key) CROSS JOIN LATERAL (
  SELECT ${columns} FROM ${s}.job_queue p
  WHERE ${eligible} AND (p.limit_key IS NOT NULL) = k.has_key ORDER BY ${order} LIMIT $4 FOR UPDATE SKIP LOCKED
) c`,
    ),
    // From key to key, one look each, however many jobs a key has.
    heads: named(
      'heads',
      `
WITH RECURSIVE head AS (
  SELECT $3::text COLLATE "C" AS limit_key, NULL::text COLLATE "C" AS kind, NULL::int AS priority, NULL::bigint AS run_at,
         NULL::text COLLATE "C" AS id, false AS is_round
  UNION ALL
  SELECT n.* FROM head h CROSS JOIN LATERAL (
    ${nextKey('p.limit_key > h.limit_key AND (NOT h.is_round OR p.limit_key <= $3)', 'h.is_round')}
    UNION ALL
    ${nextKey('NOT h.is_round AND p.limit_key <= $3', 'true')}
    LIMIT 1
  ) n
)
SELECT h.limit_key, h.kind, h.priority, h.run_at, h.id, ${startsOf('h.limit_key')}
FROM (SELECT * FROM head OFFSET 1 LIMIT $4) h`,
    ),
    // First how many of the best have which key, then that many of each.
    ofKeys: named(
      'of_keys',
      `
WITH best AS MATERIALIZED (
  SELECT b.limit_key, count(*) AS wanted
  FROM (
    SELECT k.limit_key
    FROM unnest($4::text[], $5::int[]) k (limit_key, wanted) CROSS JOIN LATERAL (
      SELECT p.priority, p.run_at, p.id FROM ${s}.job_queue p
      WHERE ${eligible} AND p.limit_key = k.limit_key ORDER BY ${order} LIMIT k.wanted
    ) p
    ORDER BY ${order} LIMIT $6
  ) b
  GROUP BY b.limit_key
)
SELECT c.* FROM best b CROSS JOIN LATERAL (
  SELECT ${columns} FROM ${s}.job_queue p
  WHERE ${eligible} AND p.limit_key = b.limit_key ORDER BY ${order} LIMIT b.wanted FOR UPDATE SKIP LOCKED
) c`,
    ),
    forgetStarts: named(
      'forget_starts',
      `
DELETE FROM ${s}.job_rate r USING (
  SELECT limit_key FROM ${s}.job_rate
  WHERE namespace = $1 AND queue = $2 AND expires_at <= ${nowMs} ORDER BY expires_at LIMIT 100
) old WHERE r.namespace = $1 AND r.queue = $2 AND r.limit_key = old.limit_key`,
    ),
    keepStarts: named(
      'keep_starts',
      `
INSERT INTO ${s}.job_rate (namespace, queue, limit_key, starts, expires_at)
SELECT $1, $2, k.limit_key, k.starts, k.expires_at
FROM unnest($3::text[], $4::text[], $5::bigint[]) k (limit_key, starts, expires_at)
ON CONFLICT (namespace, queue, limit_key) DO UPDATE SET starts = excluded.starts, expires_at = excluded.expires_at`,
    ),
    keepPosition: named(
      'keep_position',
      `UPDATE ${s}.queue_control SET key_position = $3 WHERE namespace = $1 AND queue = $2`,
    ),
    // The jobs began when the limits were looked at, for that is what their starts are counted by; their leases are as long as any.
    take: named(
      'take',
      `
WITH ${handOut(s, {
        ...{ places: 'unnest($2::tid[]) g (place)', nonce: '$3', workerId: '$4' },
        ...{ startedAt: '$6::bigint', leaseMs: '$5', claimer: '1' },
      })}
SELECT ${claimedColumns(s)} FROM taken t`,
    ),
  }
})
