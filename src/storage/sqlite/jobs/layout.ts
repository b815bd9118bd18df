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
  type Wanted,
  type Where,
} from '../../sql/job-layout.ts'
import { createWalks } from './counts.ts'

const request = `LEFT JOIN job_cancel c
  ON c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no`

/**
 * The indexes that hold live and ended jobs with a current state. They are named, because SQLite would rather walk all
 * ids in their order than sort the few matching rows. Signalbox's own queues have few jobs among very many, and have
 * separate indexes.
 */
function tablesOf({ state, of }: Wanted): { readonly live: string; readonly ended: string } {
  const isRunning = state === 'running' || state === 'dead' || state === 'cancelled'
  const index = of === 'own' ? 'own' : isRunning ? 'running' : state === 'waiting' ? 'waiting' : undefined
  const endedIndex =
    state === 'dead' || state === 'cancelled' ? 'unfinished' : of === 'own' ? 'own' : undefined
  return {
    live: `job_queue q${index === undefined ? '' : ` INDEXED BY job_queue_${index}`}`,
    ended: `job_history h${endedIndex === undefined ? '' : ` INDEXED BY job_history_${endedIndex}`}`,
  }
}

/** Walks an index from kind to kind, and counts up to `:limit` jobs of each. */
function readyKindsBy(index: string, where: string): string {
  const from = `FROM job_queue INDEXED BY ${index}
    WHERE namespace = :namespace AND queue = :queue AND state = 'ready' AND ${where}`
  return `SELECT * FROM (
  WITH RECURSIVE known (kind) AS (
    SELECT min(kind) ${from}
    UNION ALL SELECT (SELECT min(kind) ${from} AND kind > known.kind) FROM known WHERE known.kind IS NOT NULL
  )
  SELECT kind, (SELECT count(*) FROM (SELECT 1 ${from} AND kind = known.kind LIMIT :limit)) AS jobs,
    (SELECT min(run_at) FROM (SELECT run_at ${from} AND kind = known.kind LIMIT :limit)) AS oldest
  FROM known WHERE kind IS NOT NULL)`
}

export function createJobLayout(d: LayoutDialect): JobLayout {
  const find = (where: Where) => [
    `${selectLive(d, request)} WHERE ${where('q')}`,
    `${selectEnded(d)} WHERE ${where('h')}`,
  ]
  const states = [selectLiveStates(d, request), selectEndedStates(d)]
  return {
    find,
    states,
    carried: `namespace, id, queue, kind, payload, priority, unique_key, attempt, max_attempts, hand_back_count,
      snooze_count, run_at, created_at, started_at, worker_id, lease_no, lease_nonce, backoff, timeout_ms, meta,
      settled_tokens`,
    settledTokens: `iif(h.lease_nonce IS NULL, h.settled_tokens, h.lease_no || '.' || h.lease_nonce || ' ' || h.settled_tokens)`,
    limitKey: `CASE WHEN json_valid(h.meta) AND json_type(h.meta, '$.limitKey') = 'text'
      THEN nullif(json_extract(h.meta, '$.limitKey'), '') END`,
    removeEnded: 'DELETE FROM job_history WHERE namespace = :namespace AND id IN (:ids)',
    dead: deadInHistory,
    isRequested: 'c.lease_no = q.lease_no',
    list: listByState(d, request, tablesOf),
    readyKinds: `
SELECT kind, sum(jobs) AS jobs, min(oldest) AS oldest
FROM (${readyKindsBy('job_queue_ready', 'limit_key IS NULL')} UNION ALL ${readyKindsBy('job_queue_keyed', 'limit_key IS NOT NULL')})
GROUP BY kind`,
    queued: `
WITH RECURSIVE known (namespace) AS (
  SELECT min(namespace) FROM job_queue INDEXED BY job_queue_unique WHERE unique_key IS NOT NULL
  UNION ALL
  SELECT (SELECT min(namespace) FROM job_queue INDEXED BY job_queue_unique
    WHERE unique_key IS NOT NULL AND namespace > known.namespace)
  FROM known WHERE known.namespace IS NOT NULL)
SELECT namespace FROM known WHERE EXISTS (SELECT 1 FROM job_queue q INDEXED BY job_queue_unique
  WHERE q.namespace = known.namespace AND q.queue = :queue AND q.unique_key IS NOT NULL)
LIMIT :limit`,
    walks: createWalks(d),
    limits: createLimitLayout(d),
  }
}

/** The indexes of ready jobs have the kind before the claim order, so each text first walks from kind to kind. */
function createLimitLayout(d: LayoutDialect): LimitLayout {
  const readyBy = (index: string, where: string) => `FROM job_queue INDEXED BY ${index}
  WHERE namespace = :namespace AND queue = :queue AND state = 'ready' AND ${where}`
  const plain = readyBy('job_queue_ready', 'limit_key IS NULL')
  const keyed = readyBy('job_queue_keyed', 'limit_key IS NOT NULL')
  const limited = (where: string) => readyBy('job_queue_limited', `limit_key IS NOT NULL AND ${where}`)
  const order = 'priority DESC, run_at, id'
  const kindsOf = (name: string, from: string) => `${name} (kind) AS (
  SELECT min(kind) ${from}
  UNION ALL SELECT (SELECT min(kind) ${from} AND kind > ${name}.kind) FROM ${name} WHERE ${name}.kind IS NOT NULL
)`
  const firstOf = (name: string, from: string, limit: string) => `
SELECT q.id, q.limit_key, q.priority, q.run_at FROM ${name} CROSS JOIN job_queue q
  ON q.rowid IN (SELECT rowid ${from} AND kind = ${name}.kind ORDER BY ${order} LIMIT ${limit})
WHERE ${name}.kind IS NOT NULL {AND ${name}.kind IN (:kinds)}`
  const ofKey = limited('limit_key = v.limit_key')
  const upTo = '{AND limit_key <= :upTo}'
  return {
    running: 'job_queue q INDEXED BY job_queue_running',
    front: `
WITH RECURSIVE ${kindsOf('plain', plain)}, ${kindsOf('keyed', keyed)}
${firstOf('plain', plain, ':limit')} UNION ALL ${firstOf('keyed', keyed, ':limit')}
ORDER BY ${order} LIMIT :limit`,
    keyless: `
WITH RECURSIVE ${kindsOf('plain', plain)}
${firstOf('plain', plain, ':limit')} ORDER BY ${order} LIMIT :limit`,
    // One job for each key and kind. Usually a queue has only one kind.
    heads: `
WITH RECURSIVE keys (row) AS (
  SELECT (SELECT rowid ${limited('limit_key > :after')} ${upTo} ORDER BY limit_key, kind, ${order} LIMIT 1)
  UNION ALL
  SELECT (SELECT rowid ${limited('limit_key > k.limit_key')} ${upTo} ORDER BY limit_key, kind, ${order} LIMIT 1)
  FROM keys CROSS JOIN job_queue k ON k.rowid = keys.row
  LIMIT :limit
),
lines (row) AS (
  SELECT row FROM keys
  UNION ALL
  SELECT (SELECT rowid ${limited('limit_key = k.limit_key AND kind > k.kind')} ORDER BY kind, ${order} LIMIT 1)
  FROM lines CROSS JOIN job_queue k ON k.rowid = lines.row WHERE k.kind < (SELECT max(kind) ${keyed})
)
SELECT q.limit_key, q.kind, q.priority, q.run_at, q.id FROM lines CROSS JOIN job_queue q ON q.rowid = lines.row
ORDER BY q.limit_key`,
    firsts: `
WITH RECURSIVE ${kindsOf('kinds', ofKey)}
${firstOf('kinds', ofKey, 'v.wanted + 0')}`,
    expiry: { column: 'expires_at', earlierMs: 0 },
    forgetStarts: forgetStarts(d),
    pruneStarts: 'SELECT 1',
  }
}
