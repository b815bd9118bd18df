import type { ClaimRequest, QueueLimits } from '../../../jobs/index.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import { handOut, order, refusedIf } from './claim.ts'
import { atPlaces, hasEnd, slotsOf } from './limit-claim.ts'
import { passedAllowed, spareCount } from './limit-fronts.ts'

/**
 * A claim from a queue with limits, all of it sent at once: mostly nothing goes first, only what runs is counted, and the
 * front of the line is enough. The statement sees for itself that it is so; else it takes nothing and says so, and the
 * claim is made step by step (limit-claimer.ts). What it takes is what LimitPlan would: in the order of the line, as many
 * as there is room for in the queue and in each key.
 */
export interface StraightStatements {
  /** Locks the queue's row, and notes for this transaction under which limits it was had. */
  readonly own: Statement
  /** Sees what was committed before it began, so all that the last one to have the row did. */
  readonly take: Statement
}

/** Limits by which a claim may go straight. */
export interface StraightLimits {
  /** As they are kept: the claim is refused if they are others by now. */
  readonly text: string
  readonly concurrency: number | null
  readonly perKey: number | null
}

/** Undefined: starts are counted, which takes more than one look. */
export function straightLimits(
  text: string,
  { concurrency, rate, perKey }: QueueLimits,
): StraightLimits | undefined {
  if (rate !== null || (perKey?.rate ?? null) !== null) return undefined
  return { text, concurrency, perKey: perKey?.concurrency ?? null }
}

export function straightValues(
  namespace: string,
  queue: string,
  { kinds, workerId, leaseMs }: ClaimRequest,
  { text, concurrency, perKey }: StraightLimits,
  limit: number,
  nonce: string,
): unknown[] {
  return [namespace, queue, kinds, limit, nonce, workerId, leaseMs, text, concurrency, perKey]
}

export function straightStatements(s: string): StraightStatements {
  // For this queue: another may be claimed from in the same transaction.
  const kept = 'signalbox.limits'
  const note = (limits: string) => `$2::text || ' ' || ${limits}`
  const inLine = `p.namespace = $1 AND p.queue = $2`
  const eligible = `${inLine} AND p.state = 'ready' AND p.run_at <= (SELECT now FROM clock)
    AND ($3::text[] IS NULL OR p.kind = ANY ($3))`
  return {
    own: {
      name: 'sb_limit_own',
      text: `SELECT set_config('${kept}', ${note('r.limits')}, true) FROM ${s}.signalbox_limits($1, $2) r`,
    },
    take: {
      name: 'sb_limit_straight',
      text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now, clock_timestamp() AS began),
calm AS MATERIALIZED (
  SELECT coalesce(current_setting('${kept}', true) = ${note('$8::text')}, false)
    AND NOT EXISTS (SELECT FROM ${s}.job_lease l WHERE l.namespace = $1 AND l.ends_at <= (SELECT now FROM clock))
    AND NOT EXISTS (
      SELECT FROM (
        SELECT FROM ${s}.job_pending p
        WHERE ${inLine} AND p.state = 'scheduled' AND p.run_at <= (SELECT now FROM clock) ORDER BY p.run_at LIMIT 1
      ) due) AS is_so
),
slot AS MATERIALIZED (
  SELECT t.ctid AS place, t.limit_key, l.lease_no IS NULL OR ${hasEnd(s)} AS is_over
  FROM ${s}.job_slot t LEFT JOIN ${s}.job_lease l ON l.lease_no = t.lease_no
  WHERE t.namespace = $1 AND t.queue = $2 AND (SELECT is_so FROM calm)
),
cleared AS (
  DELETE FROM ${s}.job_slot t WHERE t.ctid = ANY (ARRAY (SELECT place FROM slot WHERE is_over))
),
running AS MATERIALIZED (
  SELECT limit_key, count(*) AS running FROM slot WHERE NOT is_over GROUP BY limit_key
),
room AS MATERIALIZED (
  SELECT greatest(0, least($4::bigint, $9::bigint - (SELECT coalesce(sum(running), 0)::bigint FROM running))) AS room
),
seen AS MATERIALIZED (
  SELECT p.ctid AS place, p.limit_key FROM ${s}.job_pending p
  WHERE ${eligible} AND (SELECT is_so FROM calm)
  ORDER BY ${order} LIMIT (SELECT room + ${spareCount + passedAllowed} FROM room)
),
near AS MATERIALIZED (
  SELECT n.* FROM (SELECT place, limit_key, row_number() OVER () AS nr FROM seen) n
  WHERE n.limit_key IS NULL OR n.limit_key NOT IN (SELECT limit_key FROM running WHERE running >= $10::bigint)
  LIMIT (SELECT room + ${spareCount} FROM room)
),
picked AS MATERIALIZED (
  SELECT c.place FROM (
    SELECT a.place, a.limit_key, a.nr, sum(a.count) OVER (PARTITION BY a.limit_key ORDER BY a.nr) AS nth
    FROM (
      SELECT NULL::tid AS place, limit_key, 0 AS nr, running::int AS count FROM running
      UNION ALL
      SELECT place, limit_key, nr, 1 FROM near
    ) a
  ) c
  WHERE c.nr > 0 AND (c.limit_key IS NULL OR $10::bigint IS NULL OR c.nth <= $10::bigint)
  ORDER BY c.nr LIMIT (SELECT room FROM room)
),
had AS MATERIALIZED (
  SELECT p.ctid AS place FROM ${s}.job_pending p
  WHERE ${atPlaces('(SELECT place FROM picked)', eligible)} FOR UPDATE SKIP LOCKED
),
enough AS MATERIALIZED (
  SELECT calm.is_so AND picked.count = (SELECT count(*) FROM had) AND CASE
    WHEN picked.count = room.room THEN true
    WHEN (SELECT count(*) FROM near) = room.room + ${spareCount} THEN false
    ELSE (SELECT count(*) FROM seen) < room.room + ${spareCount + passedAllowed}
  END AS is_so
  FROM calm, room, (SELECT count(*) FROM picked) picked
),
taken AS (
  DELETE FROM ${s}.job_pending p
  WHERE p.ctid = ANY (ARRAY (SELECT place FROM had WHERE (SELECT is_so FROM enough))) RETURNING p.*
)${handOut(s, { nonce: '$5', workerId: '$6', endsAt: 'c.now + $7::bigint', besides: slotsOf(s) })}${refusedIf('enough WHERE NOT is_so')}`,
    },
  }
}
