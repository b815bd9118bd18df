import type { JobState } from '../../../jobs/index.ts'
import {
  type JobLayout,
  type LayoutDialect,
  type LimitLayout,
  liveState,
  selectEnded,
  selectEndedStates,
  selectLive,
  selectLiveStates,
  type Wanted,
  type Where,
} from '../../sql/job-layout.ts'
import { createWalks } from './counts.ts'

const request = 'LEFT JOIN @job_cancel c ON c.namespace = q.namespace AND c.job_id = q.id'
const byOrder = '@job_queue q FORCE INDEX (job_queue_order)'
const byList = '@job_history h FORCE INDEX (job_history_list)'

/**
 * The stored state of live jobs, if there is only one. Live jobs that show as dead or cancelled have an expired lease.
 */
const kept: Partial<Record<JobState, 'waiting' | 'running'>> = {
  ...{ waiting: 'waiting', running: 'running', dead: 'running', cancelled: 'running' },
}

const endedStates = ['completed', 'dead', 'cancelled'] as const

/**
 * Live jobs of one state are read by the index of claims, ended jobs by state and queue, dead jobs by a separate table.
 * All other lists are read by id, between the bounds that the search sets (src/jobs/search/list-jobs.ts).
 */
export function createJobLayout(d: LayoutDialect): JobLayout {
  const live = (from: string, where: string) => `${selectLive(d, request, from)} WHERE ${where}`
  const ended = (from: string, where: string) => `${selectEnded(d, from)} WHERE ${where}`
  const state = liveState(d)
  const find = (where: Where) => [live('@job_queue q', where('q')), ended('@job_history h', where('h'))]
  const states = [selectLiveStates(d, request), selectEndedStates(d)]
  return {
    find,
    states,
    carried: `namespace, id, queue, kind, payload, priority, unique_key, attempt, max_attempts, hand_back_count,
      snooze_count, run_at, created_at, started_at, worker_id, lease_no, backoff, timeout_ms, meta, settled_tokens`,
    settledTokens: `NULLIF(CONCAT_WS(' ', h.settled_tokens, CONCAT(h.lease_no, '.', h.lease_nonce)), '')`,
    limitKey: undefined,
    removeEnded: `
DELETE h, d FROM @job_history h FORCE INDEX (PRIMARY)
LEFT JOIN @job_dead d ON d.namespace = h.namespace AND d.queue = h.queue AND d.id = h.id
WHERE h.namespace = :namespace AND h.id IN (:ids)`,
    dead: '@job_dead h WHERE h.namespace = :namespace',
    isRequested: 'TRUE',
    list: (wanted, where) => [
      ...(wanted.state === 'completed' ? [] : [listLive(wanted, where)]),
      ...listEnded(wanted, where),
    ],
    readyKinds: `
SELECT kind, COUNT(*) AS jobs, MIN(sort_at) AS oldest FROM (
  SELECT kind, sort_at FROM @job_queue FORCE INDEX (job_queue_order)
  WHERE namespace = :namespace AND queue = :queue AND state = 'ready'
  ORDER BY sort_rank, sort_at, id LIMIT :limit) first GROUP BY kind`,
    // With a range the grouping jumps. It compares a subquery, because MariaDB turns EXISTS into a join and reads far more.
    queued: `
SELECT namespace FROM (
  SELECT namespace FROM @job_queue FORCE INDEX (job_queue_unique) WHERE namespace >= '' GROUP BY namespace) known
WHERE (SELECT 1 FROM @job_queue q FORCE INDEX (job_queue_unique)
  WHERE q.namespace = known.namespace AND q.queue = :queue AND q.unique_key IS NOT NULL LIMIT 1) = 1
ORDER BY namespace LIMIT :limit`,
    walks: createWalks(d),
    limits: { ...limits, pruneStarts: pruneStarts(d) },
  }

  function listLive({ state: asked, of }: Wanted, where: Where): string {
    const one = asked && kept[asked]
    const isAsked = asked === undefined ? '' : ` AND ${state} = '${asked}'`
    // For one of Signalbox's own queues, only the entries of that queue are read.
    if (one === undefined) return live(of === 'own' ? byOrder : '@job_queue q', `${where('q')}${isAsked}`)
    // The index of claims has the jobs of each queue by state, and lists the names of queues quickly.
    const ofState = `(${queueNames('@job_queue', ':namespace')}) names STRAIGHT_JOIN ${byOrder}
  ON q.namespace = names.namespace AND q.queue = names.queue AND q.state = '${one}'`
    if (one === 'running') return live(ofState, `${where('q')}${isAsked}`)
    // Very many jobs may wait, so only one page of them is read from the table.
    return live(
      `(SELECT q.namespace, q.id FROM ${ofState} WHERE ${where('q')} ORDER BY q.id DESC LIMIT :limit) places
STRAIGHT_JOIN @job_queue q ON q.namespace = places.namespace AND q.id = places.id`,
      '1 = 1',
    )
  }

  function listEnded({ state: asked, of }: Wanted, where: Where): readonly string[] {
    if (asked === 'dead')
      return [
        ended(
          '@job_dead d STRAIGHT_JOIN @job_history h ON h.namespace = d.namespace AND h.id = d.id',
          where('d'),
        ),
      ]
    if (asked !== undefined && asked !== 'completed' && asked !== 'cancelled') return []
    // Each state of one queue is a range of the index, in the order of ids.
    if (of !== 'all')
      return (asked === undefined ? endedStates : [asked]).map((one) =>
        ended(byList, `${where('h')} AND h.state = '${one}'`),
      )
    if (asked !== 'cancelled')
      return [ended('@job_history h', `${where('h')}${asked ? ` AND h.state = '${asked}'` : ''}`)]
    return [
      ended(
        `(SELECT h.namespace, h.id FROM ${byList} WHERE ${where('h')} AND h.state = 'cancelled'
  ORDER BY h.id DESC LIMIT :limit) places
STRAIGHT_JOIN @job_history h ON h.namespace = places.namespace AND h.id = places.id`,
        '1 = 1',
      ),
    ]
  }
}

/** Starts older than this count for no rate: the longest span is over a day. */
const rateMs: number = 2 * 86_400_000

/** Up to this many jobs without a key are all read. If there are more, they are searched for in the queue's order. */
const fewKeyless = 1_000
const ready = `namespace = :namespace AND queue = :queue`
const columns = 'id, limit_key, priority, run_at'
const ofKinds = '{AND kind IN (:kinds)}'
const anyKeyless = `SELECT id FROM @job_queue FORCE INDEX (job_queue_limit)
  WHERE ${ready} AND limit_ready IS NULL LIMIT ${fewKeyless}`
const isFew = `(SELECT COUNT(*) FROM (${anyKeyless}) some) < ${fewKeyless}`

/** All are plain reads: the chosen jobs are locked afterwards. */
const limits: Omit<LimitLayout, 'pruneStarts'> = {
  running: '@job_queue q FORCE INDEX (job_queue_order)',
  front: `
SELECT ${columns} FROM @job_queue FORCE INDEX (job_queue_order)
WHERE ${ready} AND state = 'ready' ${ofKinds} ORDER BY sort_rank, sort_at, id LIMIT :limit`,
  // Few or many: they are found past jobs with keys, in the index alone.
  keyless: `
(SELECT q.id, q.limit_key, q.priority, q.run_at FROM (${anyKeyless}) few
 STRAIGHT_JOIN @job_queue q FORCE INDEX (PRIMARY) ON q.namespace = :namespace AND q.id = few.id
 WHERE ${isFew} AND q.state = 'ready' ${ofKinds.replace('kind', 'q.kind')} ORDER BY q.sort_rank, q.run_at, q.id LIMIT :limit)
UNION ALL
(SELECT ${columns} FROM @job_queue FORCE INDEX (job_queue_order)
 WHERE NOT ${isFew} AND ${ready} AND state = 'ready' AND limit_ready IS NULL ${ofKinds}
 ORDER BY sort_rank, sort_at, id LIMIT :limit)`,
  // The index has all of these columns. `limit_kind` stands for the kind.
  heads: `
SELECT limit_key, limit_kind AS kind, -limit_rank AS priority, limit_at AS run_at, id
FROM @job_queue FORCE INDEX (job_queue_limit)
WHERE ${ready} AND limit_ready = 1 AND limit_key > :after {AND limit_key <= :upTo}
ORDER BY limit_key, limit_rank, limit_at, id LIMIT :limit`,
  firsts: `
SELECT ${columns} FROM @job_queue FORCE INDEX (job_queue_limit)
WHERE ${ready} AND limit_ready = 1 AND limit_key = v.limit_key ${ofKinds}
ORDER BY limit_rank, limit_at, id LIMIT v.wanted`,
  // Pruning deletes them, because no index lists them by their end.
  forgetStarts: 'SELECT 1',
  expiry: { column: 'started_at', earlierMs: rateMs },
}

/**
 * Deletes the starts of keys that were not used for long. Reads them first, because a delete would wait for keys in
 * use.
 */
function pruneStarts({ now }: LayoutDialect): string {
  return `
DELETE r FROM (
  SELECT queue, limit_key FROM @job_rate WHERE namespace = :namespace AND started_at < ${now} - ${rateMs} LIMIT 1000) old
STRAIGHT_JOIN @job_rate r ON r.namespace = :namespace AND r.queue = old.queue AND r.limit_key = old.limit_key
WHERE r.started_at < ${now} - ${rateMs}`
}

/**
 * All queues with live jobs. With the default, both values are the namespace. MariaDB jumps along the index from name
 * to name only if the namespace is given as a range and is among the columns. With `namespace = ?` it would read all
 * entries, which takes a fifth of a second for 300,000 jobs.
 */
export function queueNames(queueTable: string, namespace = '?'): string {
  return `SELECT DISTINCT namespace, queue FROM ${queueTable} FORCE INDEX (job_queue_order) 
    WHERE namespace >= ${namespace} AND namespace <= ${namespace}`
}
