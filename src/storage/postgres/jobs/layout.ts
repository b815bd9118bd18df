import {
  deadInHistory,
  forgetStarts,
  type JobLayout,
  type LayoutDialect,
  type LimitLayout,
  listByState,
  selectEnded,
  selectEndedStates,
  selectLive,
  selectLiveStates,
} from '../../sql/job-layout.ts'
import { createWalks } from './counts.ts'
import { order } from './hand-out.ts'
import { settledTokens } from './settle.ts'

const request = 'LEFT JOIN @job_cancel c ON c.namespace = q.namespace AND c.job_id = q.id'

export function createJobLayout(d: LayoutDialect): JobLayout {
  return {
    find: (where) => [
      `${selectLive(d, request)} WHERE ${where('q')}`,
      `${selectEnded(d)} WHERE ${where('h')}`,
    ],
    states: [selectLiveStates(d, request), selectEndedStates(d)],
    carried: `namespace, id, queue, kind, payload, priority, unique_key, attempt, max_attempts, hand_back_count,
      snooze_count, run_at, created_at, started_at, worker_id, lease_no, backoff, timeout_ms, meta, settled_tokens, limit_key`,
    settledTokens: settledTokens('h'),
    limitKey: 'h.limit_key',
    removeEnded: `
DELETE FROM @job_history t USING unnest(:ids) AS wanted (id)
CROSS JOIN LATERAL (
  SELECT h.ctid AS place FROM @job_history h WHERE h.namespace = :namespace AND h.id = wanted.id OFFSET 0) found
WHERE t.ctid = found.place`,
    dead: deadInHistory,
    isRequested: 'TRUE',
    list: listByState(d, request),
    readyKinds: `
SELECT kind, count(*) AS jobs, min(run_at) AS oldest FROM (${[false, true]
      .map(
        (hasKey) => `
  (SELECT kind, run_at FROM @job_queue
   WHERE namespace = :namespace AND queue = :queue AND (limit_key IS NOT NULL) = ${hasKey} AND state = 'ready'
   ORDER BY (-priority::bigint), run_at, id LIMIT :limit)`,
      )
      .join(' UNION ALL ')}) AS first GROUP BY kind`,
    queued: `
WITH RECURSIVE known (namespace) AS (
  SELECT min(namespace) FROM @job_queue WHERE unique_key IS NOT NULL
  UNION ALL
  SELECT (SELECT min(u.namespace) FROM @job_queue u WHERE u.unique_key IS NOT NULL AND u.namespace > known.namespace)
  FROM known WHERE known.namespace IS NOT NULL
)
SELECT namespace FROM known
WHERE EXISTS (SELECT FROM @job_queue u WHERE u.unique_key IS NOT NULL AND u.namespace = known.namespace AND u.queue = :queue)
LIMIT :limit`,
    walks: createWalks(d),
    limits: createLimitLayout(d),
  }
}

/** Locks the jobs at the front as it reads them: a claim skips jobs that others have locked and takes the next ones. */
function createLimitLayout(d: LayoutDialect): LimitLayout {
  const ready = `p.namespace = :namespace AND p.queue = :queue AND p.state = 'ready'`
  const select = (where: string, limit = ':limit') => `
  SELECT p.id, p.limit_key, p.priority, p.run_at FROM @job_queue p
  WHERE ${ready} {AND p.kind IN (:kinds)} AND ${where} ORDER BY ${order} LIMIT ${limit}`
  const nextHead = (after: string) => `
    SELECT p.limit_key, p.kind, p.priority, p.run_at, p.id FROM @job_queue p
    WHERE ${ready} AND p.limit_key > ${after} {AND p.limit_key <= :upTo} ORDER BY p.limit_key, ${order} LIMIT 1`
  return {
    running: '@job_queue q',
    front: `
SELECT c.* FROM (VALUES (false), (true)) k (has_key)
CROSS JOIN LATERAL (${select('(p.limit_key IS NOT NULL) = k.has_key')} FOR UPDATE SKIP LOCKED) c`,
    keyless: select('(p.limit_key IS NOT NULL) = false'),
    // Steps from key to key along the index, so its time does not depend on the number of jobs of a key.
    heads: `
WITH RECURSIVE head AS (
  (${nextHead(':after')})
  UNION ALL
  SELECT n.* FROM head h CROSS JOIN LATERAL (${nextHead('h.limit_key')}) n
)
SELECT h.* FROM head h LIMIT :limit`,
    firsts: `
SELECT c.* FROM :rows CROSS JOIN LATERAL (${select('p.limit_key = v.limit_key', 'v.wanted')}) c`,
    expiry: { column: 'expires_at', earlierMs: 0 },
    forgetStarts: forgetStarts(d),
    pruneStarts: 'SELECT 1',
  }
}
