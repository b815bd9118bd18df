import { setTimeout as sleep } from 'node:timers/promises'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Deletes given jobs with all their details, or jobs that ended long ago. A statement skips locked rows: another
 * transaction is claiming, returning or ending such a job, so the store tries again. If a user's open transaction keeps
 * the lock, that transaction ends the job, and the job stays.
 */
const removeStatements = perSchema((s) => {
  const isResting = `(q.state <> 'running' OR q.lease_ends_at <= ${nowMs}) IS TRUE`
  const find = (table: string, where: string, lock: string) => `
  SELECT f.* FROM unnest($2::text[]) g (id) CROSS JOIN LATERAL (
    SELECT q.ctid AS place, q.id FROM ${s}.${table} q WHERE q.namespace = $1 AND q.id = g.id AND ${where} OFFSET 0 ${lock}) f`
  const details = [
    'job_cancel',
    'job_progress',
    'job_log',
    'job_dependency',
    'job_lock',
    'job_block',
    'job_attempt',
  ].map(
    (table) => `of_${table} AS (
  DELETE FROM ${s}.${table} d WHERE d.namespace = $1 AND d.job_id = ANY (ARRAY (SELECT id FROM gone))
)`,
  )
  return {
    // Answers the ids of deleted jobs.
    remove: {
      name: 'sb_remove',
      text: `
WITH live AS MATERIALIZED (${find('job_queue', isResting, 'FOR UPDATE SKIP LOCKED')}),
ended AS MATERIALIZED (${find('job_history', 'true', 'FOR UPDATE SKIP LOCKED')}),
gone_live AS (
  DELETE FROM ${s}.job_queue q WHERE q.ctid = ANY (ARRAY (SELECT place FROM live)) RETURNING q.id
),
gone_ended AS (
  DELETE FROM ${s}.job_history q WHERE q.ctid = ANY (ARRAY (SELECT place FROM ended)) RETURNING q.id
),
gone AS MATERIALIZED (SELECT id FROM gone_live UNION SELECT id FROM gone_ended),
${details.join(',\n')}
SELECT id FROM gone`,
    },
    // Lists which of these jobs exist and do not run.
    resting: {
      name: 'sb_resting',
      text: `${find('job_queue', isResting, '')} UNION ${find('job_history', 'true', '')}`.replaceAll(
        'f.*',
        'f.id',
      ),
    },
    prune: {
      name: 'sb_prune',
      text: `
WITH gone AS (
  DELETE FROM ${s}.job_history h WHERE h.ctid = ANY (ARRAY (
    SELECT o.ctid FROM ${s}.job_history o
    WHERE o.namespace = $1 AND o.id < $4 AND o.finished_at < ${nowMs} - $2::bigint ORDER BY o.id LIMIT $3 FOR UPDATE SKIP LOCKED))
  RETURNING h.id
),
of_attempts AS (
  DELETE FROM ${s}.job_attempt a WHERE a.namespace = $1 AND a.job_id = ANY (ARRAY (SELECT id FROM gone))
)
SELECT count(*)::int AS pruned FROM gone`,
    },
    // Removes cancellation requests of jobs that have ended.
    forgetRequests: {
      name: 'sb_forget_requests',
      text: `
DELETE FROM ${s}.job_cancel c WHERE c.namespace = $1
  AND NOT EXISTS (SELECT FROM ${s}.job_queue q WHERE q.namespace = c.namespace AND q.id = c.job_id OFFSET 0)`,
    },
  }
})

const maxTries = 6
/** If the clock of a host that creates ids is further ahead than this, its jobs are pruned too late. */
const clockSlackMs = 3_600_000

export async function remove(scope: Scope, ids: readonly string[]): Promise<readonly string[]> {
  const statements = removeStatements(scope.schemaName)
  const list = async (statement: Statement, some: readonly string[]) =>
    (await runIn<{ id: string }>(scope, statement, some)).map(({ id }) => id)
  const gone: string[] = []
  // All calls lock jobs in one order, so that two calls that remove the same jobs do not deadlock.
  let left = [...new Set(ids)].sort()
  for (let tries = 0; tries < maxTries && left.length > 0; tries++) {
    if (tries > 0) await sleep(2 ** tries)
    const removed = new Set(await list(statements.remove, left))
    gone.push(...removed)
    left = left.filter((id) => !removed.has(id))
    if (left.length > 0) left = (await list(statements.resting, left)).sort()
  }
  return gone
}

/** Deletes jobs that ended more than `olderThanMs` ago. */
export async function prune(
  scope: Scope,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<number> {
  const statements = removeStatements(scope.schemaName)
  // Ids begin with their creation time, so a time bounds a range of ids, and no index on the end is needed.
  const bound = idBound(Date.now() - olderThanMs + clockSlackMs)
  const values = [scope.namespace, olderThanMs, limit, bound]
  const { rows } = await scope.sender.run<{ pruned: number }>(statements.prune, values)
  await runIn(scope, statements.forgetRequests)
  return rows[0]!.pruned
}

/** A text above all ids that were created before an instant. Ids begin with their creation time. */
export function idBound(ms: number): string {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
  let rest = Math.min(Math.max(Math.floor(ms), 0), 2 ** 48 - 1)
  let text = ''
  for (let place = 0; place < 10; place++) {
    text = alphabet.charAt(rest % 32) + text
    rest = Math.floor(rest / 32)
  }
  return text
}
