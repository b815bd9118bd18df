import { setTimeout as sleep } from 'node:timers/promises'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Deleting jobs: some with all that is known of them, or those that ended long ago. A row that is locked is passed over: it is being
 * claimed, put back or ended, so it is looked for again. One that a user's open transaction keeps locked is ended there, and stays.
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
    // Answers the ids that are gone.
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
    // Which of these jobs are there and do not run.
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

const mostLooks = 6
/** How far the clock of a host that made ids may be ahead before its jobs are pruned later than asked. */
const clockSlackMs = 3_600_000

export async function remove(scope: Scope, ids: readonly string[]): Promise<readonly string[]> {
  const statements = removeStatements(scope.schemaName)
  const list = async (statement: Statement, some: readonly string[]) =>
    (await runIn<{ id: string }>(scope, statement, some)).map(({ id }) => id)
  const gone: string[] = []
  // In one order, so that two calls that remove the same jobs never wait in a ring.
  let left = [...new Set(ids)].sort()
  for (let looks = 0; looks < mostLooks && left.length > 0; looks++) {
    if (looks > 0) await sleep(2 ** looks)
    const removed = new Set(await list(statements.remove, left))
    gone.push(...removed)
    left = left.filter((id) => !removed.has(id))
    if (left.length > 0) left = (await list(statements.resting, left)).sort()
  }
  return gone
}

/** Deletes jobs that ended longer ago than that. */
export async function prune(
  scope: Scope,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<number> {
  const statements = removeStatements(scope.schemaName)
  // Ids begin with the time they were made, so a time bounds a range of them: no index on the end is needed.
  const bound = idBound(Date.now() - olderThanMs + clockSlackMs)
  const values = [scope.namespace, olderThanMs, limit, bound]
  const { rows } = await scope.sender.run<{ pruned: number }>(statements.prune, values)
  await runIn(scope, statements.forgetRequests)
  return rows[0]!.pruned
}

/** What every id made before an instant sorts below: ids begin with their time, so a time bounds a range of them. */
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
