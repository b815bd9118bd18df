import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import { handOut, order } from './claim.ts'

/**
 * The statements of a claim from queues with limits, in the order they are sent. All behind `rule` are sent by whoever has
 * the queue's row; each sees what was committed before it began, so they see all that the last one to have it did.
 */
export interface LimitStatements {
  /** Which of the queues have jobs, by the order of their first ones: nobody locks the row of an idle queue. */
  readonly ready: Statement
  /** Locks the queue's row. */
  readonly rule: Statement
  /** Writes slots for what runs without one, as long as there may be such. */
  readonly adopt: Statement
  /**
   * What runs and what has started lately in the queue, whether a lease ran out that may be taken back, and the time.
   * Slots that count no more are cleared away.
   */
  readonly count: Statement
  readonly heads: Statement
  readonly keyless: Statement
  /** These four lock the jobs they answer. */
  readonly first: Statement
  readonly front: Statement
  readonly ofKeys: Statement
  readonly ofIds: Statement
  /** Clears away starts that count no more. */
  readonly forgetStarts: Statement
  readonly place: Statement
  readonly keepStarts: Statement
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
  readonly lapsed: boolean
  readonly now: string
}

/** The first jobs in line, in the order of claims: where each is, and its key. */
export interface FrontRow extends Record<string, unknown> {
  readonly places: readonly string[] | null
  readonly limit_keys: readonly (string | null)[] | null
  /** What is kept of the starts of those keys, if that was asked for. */
  readonly starts: Readonly<Record<string, string>> | null
  /** How many stand in the line up to the last of those. */
  readonly passed: number | null
  /** How much of the line was looked at, if less was found than asked for. */
  readonly seen: number | null
}

/** The first job of a key, and what is kept of the key's starts. */
export interface HeadRow extends Record<string, unknown> {
  readonly limit_key: string
  readonly kind: string
  readonly priority: number
  readonly run_at: string
  readonly id: string
  readonly starts: string | null
}

/** A job that was locked. */
export interface LockedRow extends Record<string, unknown> {
  readonly place: string
  readonly id: string
  readonly limit_key: string | null
  readonly priority: number
  readonly run_at: string
}

/** A stretch of the line: how many stand in it, where its first job without a key is or else its last job, and which they are. */
export interface KeylessRow extends Record<string, unknown> {
  readonly seen: number
  readonly rank: string | null
  readonly run_at: string | null
  readonly id: string | null
  readonly ids: readonly string[]
}

/** Whether a slot `t` is of an attempt that has ended while its lease lives. */
export function hasEnd(s: string): string {
  return `EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = t.lease_no AND e.job_id = t.job_id)`
}

/**
 * Jobs `p` at these places, if they still are what was looked for. That stands inside CASE so that a planner which knows
 * little of the table cannot take it for the shorter way: it would read the whole line to find a handful.
 */
export function atPlaces(places: string, condition: string): string {
  return `p.ctid = ANY (ARRAY ${places}) AND CASE WHEN ${condition} THEN true ELSE false END`
}

/** Slots for what was `taken` under a `lease`. */
export function slotsOf(s: string, condition = 'true'): string {
  return `,
made AS (
  INSERT INTO ${s}.job_slot (namespace, queue, lease_no, job_id, limit_key)
  SELECT $1, t.queue, l.lease_no, t.id, coalesce(t.limit_key, '') FROM taken t, lease l WHERE ${condition}
)`
}

export function limitStatements(s: string): LimitStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_limit_${name}`, text })
  const clock = `clock AS MATERIALIZED (SELECT ${nowMs} AS now)`
  const ready = `p.namespace = $1 AND p.queue = $2 AND p.state = 'ready'`
  const eligible = `${ready} AND p.run_at <= (SELECT now FROM clock) AND ($3::text[] IS NULL OR p.kind = ANY ($3))`
  const columns = 'p.ctid AS place, p.id, p.limit_key, p.priority, p.run_at'
  const head = (isNext: string) => `
    SELECT p.limit_key, p.kind, p.priority, p.run_at, p.id FROM ${s}.job_pending p
    WHERE ${ready} AND ${isNext} AND ($4::text IS NULL OR p.limit_key <= $4) ORDER BY p.limit_key, ${order} LIMIT 1`
  // Sent behind `rule` without waiting for its answer: what writes looks whether the row was had, and waits for nobody.
  const own = `${s}.queue_control c WHERE c.namespace = $1 AND c.queue = $2`
  return {
    ready: named(
      'ready',
      `
SELECT q.queue FROM unnest((SELECT $2::text[])) q (queue) CROSS JOIN LATERAL (
  SELECT p.priority, p.run_at, p.id FROM ${s}.job_pending p
  WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = 'ready' ORDER BY ${order} LIMIT 1
) p
ORDER BY ${order}`,
    ),
    rule: named('rule', `SELECT r.limits, r.key_position FROM ${s}.signalbox_limits($1, $2) r`),
    // A lease that has a slot has all that count: they are written together, and cleared away only when they count no more.
    adopt: named(
      'adopt',
      `
WITH adopting AS MATERIALIZED (
  SELECT c.ctid AS place FROM ${own} AND c.adopt_until IS NOT NULL FOR UPDATE SKIP LOCKED
),
ended AS (
  UPDATE ${s}.queue_control c SET adopt_until = NULL FROM adopting a WHERE c.ctid = a.place AND c.adopt_until <= ${nowMs}
),
lease AS MATERIALIZED (
  SELECT l.lease_no, l.jobs FROM ${s}.job_lease l
  WHERE EXISTS (SELECT FROM adopting) AND l.namespace = $1 AND l.ends_at > ${nowMs} AND (
    SELECT t.lease_no FROM ${s}.job_slot t
    WHERE t.namespace = $1 AND t.queue = $2 AND t.lease_no = l.lease_no LIMIT 1) IS NULL
)
INSERT INTO ${s}.job_slot (namespace, queue, lease_no, job_id, limit_key)
SELECT $1, $2, l.lease_no, j.id,
       coalesce(CASE WHEN j.meta LIKE '%"limitKey"%' THEN ${s}.signalbox_limit_key(j.meta) END, '')
FROM lease l CROSS JOIN LATERAL unnest(l.jobs) j
WHERE j.queue = $2
  AND (SELECT e.lease_no FROM ${s}.job_end e WHERE e.lease_no = l.lease_no AND e.job_id = j.id LIMIT 1) IS NULL
ON CONFLICT DO NOTHING`,
    ),
    // A lease that seems to have run out may be being renewed just now: unless its row can be had, it counts. The time is
    // read when what is counted can be seen: what is taken begins then, when what counts no more had ended.
    count: named(
      'count',
      `
WITH ${clock},
own AS MATERIALIZED (SELECT FROM ${own} FOR UPDATE SKIP LOCKED),
slot AS MATERIALIZED (
  SELECT t.ctid AS place, t.limit_key, t.lease_no, l.lease_no IS NULL OR ${hasEnd(s)} AS is_over, l.ends_at > clock.now AS is_live
  FROM clock CROSS JOIN ${s}.job_slot t LEFT JOIN ${s}.job_lease l ON l.lease_no = t.lease_no
  WHERE t.namespace = $1 AND t.queue = $2
),
lapsed AS MATERIALIZED (
  SELECT l.lease_no FROM clock, ${s}.job_lease l
  WHERE l.lease_no IN (SELECT lease_no FROM slot WHERE NOT is_live AND NOT is_over) AND l.ends_at <= clock.now
  FOR SHARE OF l SKIP LOCKED
),
cleared AS (
  DELETE FROM ${s}.job_slot t USING slot WHERE EXISTS (SELECT FROM own) AND slot.is_over AND t.ctid = slot.place
)
SELECT (SELECT json_object_agg(r.limit_key, r.running) FROM (
         SELECT limit_key, count(*) AS running FROM slot
         WHERE NOT is_over AND (is_live OR lease_no NOT IN (SELECT lease_no FROM lapsed)) GROUP BY limit_key) r) AS running,
       (SELECT starts FROM ${s}.job_rate WHERE namespace = $1 AND queue = $2 AND limit_key = '') AS starts,
       EXISTS (SELECT FROM ${s}.job_lease l
               WHERE l.namespace = $1 AND l.ends_at <= clock.now AND NOT l.lease_no = ANY ($3::bigint[])) AS lapsed,
       clock.now
FROM clock`,
    ),
    // From key to key, one look each, however many jobs a key has.
    heads: named(
      'heads',
      `
WITH RECURSIVE head AS (
  (${head(`p.limit_key > $3`)})
  UNION ALL
  SELECT n.* FROM head h CROSS JOIN LATERAL (${head('p.limit_key > h.limit_key')}) n
)
SELECT h.*, r.starts FROM (SELECT * FROM head LIMIT $5) h
LEFT JOIN ${s}.job_rate r ON $6 AND r.namespace = $1 AND r.queue = $2 AND r.limit_key = h.limit_key`,
    ),
    keyless: named(
      'keyless',
      `
WITH seen AS MATERIALIZED (
  SELECT p.id, p.priority, p.run_at, p.limit_key IS NULL AND ($3::text[] IS NULL OR p.kind = ANY ($3)) AS is_wanted
  FROM ${s}.job_pending p
  WHERE ${ready} AND ((-p.priority::bigint), p.run_at, p.id) >= ($4::bigint, $5::bigint, $6::text)
  ORDER BY ${order} LIMIT $7
),
at AS (
  (SELECT * FROM seen p WHERE p.is_wanted ORDER BY ${order} LIMIT 1)
  UNION ALL
  (SELECT * FROM seen p ORDER BY -p.priority::bigint DESC, p.run_at DESC, p.id DESC LIMIT 1)
  LIMIT 1
)
SELECT (SELECT count(*)::int FROM seen) AS seen, -at.priority::bigint AS rank, at.run_at, at.id,
       ARRAY (SELECT p.id FROM seen p WHERE p.is_wanted ORDER BY ${order} LIMIT $8) AS ids
FROM (SELECT) one LEFT JOIN at ON true`,
    ),
    first: named(
      'first',
      `
WITH ${clock}
SELECT ${columns} FROM ${s}.job_pending p WHERE ${eligible} ORDER BY ${order} LIMIT $4 FOR UPDATE SKIP LOCKED`,
    ),
    // Past the keys that are full, as far into the line as is worth it. What is seen is read only as far as it is needed.
    front: named(
      'front',
      `
WITH ${clock},
seen AS MATERIALIZED (
  SELECT p.ctid AS place, p.limit_key FROM ${s}.job_pending p WHERE ${eligible} ORDER BY ${order} LIMIT $5
),
near AS MATERIALIZED (
  SELECT n.place, n.nr FROM (SELECT place, limit_key, row_number() OVER () AS nr FROM seen) n
  WHERE n.limit_key IS NULL OR n.limit_key NOT IN (SELECT unnest($6::text[])) LIMIT $4
),
front AS MATERIALIZED (
  SELECT p.ctid AS place, p.limit_key FROM ${s}.job_pending p
  WHERE ${atPlaces('(SELECT place FROM near)', eligible)} ORDER BY ${order} FOR UPDATE SKIP LOCKED
)
SELECT f.places, f.limit_keys,
       CASE WHEN $7 THEN (
         SELECT json_object_agg(k.limit_key, k.starts) FROM (
           SELECT f.limit_key, (SELECT r.starts FROM ${s}.job_rate r
                                WHERE r.namespace = $1 AND r.queue = $2 AND r.limit_key = f.limit_key) AS starts
           FROM (SELECT DISTINCT limit_key FROM front) f OFFSET 0) k
         WHERE k.starts IS NOT NULL) END AS starts,
       n.passed, CASE WHEN n.found < $4 THEN (SELECT count(*)::int FROM seen) END AS seen
FROM (SELECT count(*) AS found, max(nr)::int AS passed FROM near) n,
     (SELECT json_agg(place) AS places, json_agg(limit_key) AS limit_keys FROM front) f`,
    ),
    // First how many of the best have which key, then that many of each.
    ofKeys: named(
      'of_keys',
      `
WITH ${clock},
best AS MATERIALIZED (
  SELECT b.limit_key, count(*) AS wanted
  FROM (
    SELECT k.limit_key
    FROM unnest($4::text[], $5::int[]) k (limit_key, wanted) CROSS JOIN LATERAL (
      SELECT p.priority, p.run_at, p.id FROM ${s}.job_pending p
      WHERE ${eligible} AND p.limit_key = k.limit_key ORDER BY ${order} LIMIT k.wanted
    ) p
    ORDER BY ${order} LIMIT $6
  ) b
  GROUP BY b.limit_key
)
SELECT c.* FROM best b CROSS JOIN LATERAL (
  SELECT ${columns} FROM ${s}.job_pending p
  WHERE ${eligible} AND p.limit_key = b.limit_key ORDER BY ${order} LIMIT b.wanted FOR UPDATE SKIP LOCKED
) c`,
    ),
    ofIds: named(
      'of_ids',
      `
WITH ${clock}
SELECT ${columns} FROM ${s}.job_pending p
WHERE ${eligible} AND p.id = ANY ($4::text[]) AND p.limit_key IS NULL ORDER BY ${order} FOR UPDATE SKIP LOCKED`,
    ),
    forgetStarts: named(
      'forget_starts',
      `
DELETE FROM ${s}.job_rate r USING (
  SELECT limit_key FROM ${s}.job_rate
  WHERE namespace = $1 AND queue = $2 AND expires_at <= ${nowMs} ORDER BY expires_at LIMIT 100
) old WHERE r.namespace = $1 AND r.queue = $2 AND r.limit_key = old.limit_key`,
    ),
    place: named(
      'place',
      `UPDATE ${s}.queue_control SET key_position = $3 WHERE namespace = $1 AND queue = $2`,
    ),
    keepStarts: named(
      'keep_starts',
      `
INSERT INTO ${s}.job_rate (namespace, queue, limit_key, starts, expires_at)
SELECT $1, $2, k.limit_key, k.starts, k.expires_at
FROM unnest($3::text[], $4::text[], $5::bigint[]) k (limit_key, starts, expires_at)
ON CONFLICT (namespace, queue, limit_key) DO UPDATE SET starts = excluded.starts, expires_at = excluded.expires_at`,
    ),
    // It began when the limits were looked at, for that is what its start was counted by; its lease is as long as any. By
    // place, not by key: the rows are locked, so they cannot have moved.
    take: named(
      'take',
      `
WITH clock AS MATERIALIZED (SELECT $6::bigint AS now, clock_timestamp() AS began),
taken AS (
  DELETE FROM ${s}.job_pending p WHERE p.ctid = ANY ($2::tid[]) RETURNING p.*
)${handOut(s, { nonce: '$3', workerId: '$4', endsAt: `${nowMs} + $5::bigint`, besides: slotsOf(s, '$7::boolean') })}`,
    ),
  }
}
