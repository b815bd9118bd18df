import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import { endCancelled } from './end-cancelled.ts'

/** Every statement on dependencies; namespaces share them. The first value is the namespace, but for `blocked`. */
export type GateStatements = Record<
  | 'resting'
  | 'anywhere'
  | 'unmet'
  | 'unmetOf'
  | 'meet'
  | 'fail'
  | 'around'
  | 'tend'
  | 'tendOf'
  | 'called'
  | 'grant'
  | 'blockAgain'
  | 'fences'
  | 'take'
  | 'rest'
  | 'pruneDependencies'
  | 'pruneLocks'
  | 'blocked',
  Statement
>

/** The statements for a schema, whose name comes quoted. */
export function gateStatements(s: string): GateStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_gates_${name}`, text })
  const resting = `
SELECT p.id, CASE WHEN p.state = 'waiting' THEN 'waiting' WHEN p.run_at <= ${nowMs} THEN 'ready' ELSE 'scheduled' END AS state,
       greatest(0, p.run_at - ${nowMs}) AS due_in_ms
FROM ${s}.job_pending p WHERE p.namespace = $1 AND p.id = ANY ($2::text[])
UNION ALL
SELECT h.id, h.state, greatest(0, h.run_at - ${nowMs}) FROM ${s}.job_history h WHERE h.namespace = $1 AND h.id = ANY ($2::text[])`
  const leased = `${s}.job_queue q WHERE q.namespace = $1 AND q.lease_no IS NOT NULL`
  const isGone = (
    id: string,
  ) => `NOT EXISTS (SELECT FROM ${s}.job_pending p WHERE p.namespace = $1 AND p.id = ${id})
    AND NOT EXISTS (SELECT FROM ${s}.job_history h WHERE h.namespace = $1 AND h.id = ${id})
    AND ${id} NOT IN (SELECT q.id FROM ${leased})`
  const lock = 'k.job_id, k.operation, k.resource, k.ask_no, k.fence, k.taken_fence'
  // RETURNING promises no order.
  const tended = (chosen: string) => `
WITH chosen AS MATERIALIZED (
  SELECT job_id, tended_until AS before FROM ${s}.job_lock k WHERE k.namespace = $1 AND k.is_called AND ${chosen}
),
tended AS (
  UPDATE ${s}.job_lock k SET tended_until = ${nowMs} + $3::bigint FROM chosen c
  WHERE k.namespace = $1 AND k.job_id = c.job_id
  RETURNING ${lock}, c.before
)
SELECT ${lock} FROM tended k ORDER BY k.before, k.job_id`
  return {
    resting: named('resting', resting),
    // All three places at one moment: a job on its way from one to the next is never missed.
    anywhere: named(
      'anywhere',
      `${resting}
UNION ALL
SELECT q.id, q.state, greatest(0, q.run_at - ${nowMs}) FROM ${leased} AND q.id = ANY ($2::text[])`,
    ),
    unmet: named(
      'unmet',
      `
SELECT job_id, dependency_id FROM ${s}.job_dependency
WHERE namespace = $1 AND NOT is_met AND (job_id, dependency_id) > ($2, $3) ORDER BY job_id, dependency_id LIMIT $4`,
    ),
    unmetOf: named(
      'needs_of',
      `
SELECT job_id, dependency_id FROM ${s}.job_dependency
WHERE namespace = $1 AND dependency_id = ANY ($2::text[]) AND NOT is_met ORDER BY job_id, dependency_id LIMIT $3`,
    ),
    meet: named('meet', `SELECT job_id, queue, becomes FROM ${s}.signalbox_meet($1, $2::text[], $3::text[])`),
    // The rows of jobs are locked before those of dependencies, as everywhere, and in one order.
    fail: named(
      'fail',
      `
WITH given AS MATERIALIZED (
  SELECT p.id, g.error FROM ${s}.job_pending p JOIN unnest($2::text[], $3::text[]) g (id, error) ON g.id = p.id
  WHERE p.namespace = $1 AND p.state = 'waiting' ORDER BY p.id FOR UPDATE OF p
),
gone AS (
  DELETE FROM ${s}.job_pending p USING given g WHERE p.namespace = $1 AND p.id = g.id
  RETURNING p.*, g.error AS reason
),
${endCancelled(s, 'reason')},
met AS (
  UPDATE ${s}.job_dependency n SET is_met = true FROM gone WHERE n.namespace = $1 AND n.job_id = gone.id AND NOT n.is_met
)
SELECT id FROM gone`,
    ),
    around: named(
      'around',
      `
(SELECT dependency_id AS id, is_met, true AS is_dependency FROM ${s}.job_dependency
 WHERE namespace = $1 AND job_id = $2 ORDER BY dependency_id LIMIT $3)
UNION ALL
(SELECT job_id, is_met, false FROM ${s}.job_dependency
 WHERE namespace = $1 AND dependency_id = $2 ORDER BY job_id LIMIT $3)`,
    ),
    tend: named(
      'tend',
      tended(`k.tended_until <= ${nowMs} ORDER BY k.tended_until, k.job_id LIMIT $2 FOR UPDATE SKIP LOCKED`),
    ),
    tendOf: named(
      'tend_of',
      tended(`k.job_id = ANY ($4::text[]) ORDER BY k.tended_until, k.job_id LIMIT $2 FOR UPDATE`),
    ),
    called: named('called', `SELECT FROM ${s}.job_lock WHERE namespace = $1 AND is_called LIMIT 1`),
    grant: named('grant', `SELECT ${s}.signalbox_grant($1, $2, $3, $4) AS queue`),
    blockAgain: named('blockAgain', `SELECT ${s}.signalbox_shut($1, $2, $3, $4, $5) AS shut`),
    fences: named(
      'fences',
      `SELECT job_id, ask_no, fence FROM ${s}.job_lock WHERE namespace = $1 AND job_id = ANY ($2::text[])`,
    ),
    take: named(
      'take',
      `UPDATE ${s}.job_lock SET taken_fence = fence
WHERE namespace = $1 AND job_id = ANY ($2::text[]) AND fence IS NOT NULL AND taken_fence IS DISTINCT FROM fence
RETURNING job_id, ask_no, fence`,
    ),
    // A lease that ran out on a job's last attempt, or on one to be cancelled, is its end.
    rest: named(
      'rest',
      `
WITH ended AS MATERIALIZED (
  SELECT h.id FROM ${s}.job_history h WHERE h.namespace = $1 AND h.id = ANY ($2::text[])
  UNION ALL
  SELECT q.id FROM ${leased} AND q.id = ANY ($2::text[]) AND q.state IN ('dead', 'cancelled')
)
UPDATE ${s}.job_lock k SET fence = NULL, ask_no = k.ask_no + 1, is_called = false
FROM (SELECT DISTINCT id FROM ended) e WHERE k.namespace = $1 AND k.job_id = e.id`,
    ),
    pruneDependencies: named(
      'prune_needs',
      `
WITH gone AS MATERIALIZED (
  SELECT n.job_id, n.dependency_id FROM ${s}.job_dependency n WHERE n.namespace = $1 AND ${isGone('n.job_id')}
  LIMIT $2 FOR UPDATE OF n SKIP LOCKED
),
pruned AS (
  DELETE FROM ${s}.job_dependency n USING gone g WHERE n.namespace = $1 AND n.job_id = g.job_id AND n.dependency_id = g.dependency_id
  RETURNING 1
)
SELECT count(*)::int AS count FROM pruned`,
    ),
    pruneLocks: named(
      'prune_locks',
      `
WITH gone AS MATERIALIZED (
  SELECT k.job_id FROM ${s}.job_lock k WHERE k.namespace = $1 AND ${isGone('k.job_id')}
  LIMIT $2 FOR UPDATE OF k SKIP LOCKED
),
pruned AS (
  DELETE FROM ${s}.job_lock k USING gone g WHERE k.namespace = $1 AND k.job_id = g.job_id RETURNING 1
)
SELECT count(*)::int AS count FROM pruned`,
    ),
    // From namespace to namespace, however many wait in each.
    blocked: named(
      'blocked',
      `
WITH RECURSIVE needing (namespace) AS (
  (SELECT namespace FROM ${s}.job_dependency WHERE NOT is_met ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT n.namespace FROM ${s}.job_dependency n WHERE NOT n.is_met AND n.namespace > needing.namespace
          ORDER BY n.namespace LIMIT 1)
  FROM needing WHERE needing.namespace IS NOT NULL
),
locking (namespace) AS (
  (SELECT namespace FROM ${s}.job_lock ORDER BY namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT k.namespace FROM ${s}.job_lock k WHERE k.namespace > locking.namespace ORDER BY k.namespace LIMIT 1)
  FROM locking WHERE locking.namespace IS NOT NULL
)
SELECT namespace FROM (SELECT namespace FROM needing UNION SELECT namespace FROM locking) n
WHERE namespace IS NOT NULL ORDER BY namespace LIMIT $1`,
    ),
  }
}
