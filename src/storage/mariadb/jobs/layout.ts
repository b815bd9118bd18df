import type { JobState } from '../../../jobs/index.ts'
import {
  type JobLayout,
  liveState,
  selectEnded,
  selectEndedStates,
  selectLive,
  selectLiveStates,
  type Wanted,
  type Where,
  type Words,
} from '../../sql/job-layout.ts'

const request = 'LEFT JOIN @job_cancel c ON c.namespace = q.namespace AND c.job_id = q.id'
const byOrder = '@job_queue q FORCE INDEX (job_queue_order)'
const byList = '@job_history h FORCE INDEX (job_history_list)'

/** As what live jobs are kept, where that is one state only: what is dead or cancelled there is an expired lease. */
const kept: Partial<Record<JobState, 'waiting' | 'running'>> = {
  ...{ waiting: 'waiting', running: 'running', dead: 'running', cancelled: 'running' },
}

const endedStates = ['completed', 'dead', 'cancelled'] as const

/**
 * Live jobs of one state are found by the index of claims, ended ones by state and queue, the dead by a table of their own.
 * All else is read by id, between the ends that the search has set (src/jobs/search/list-jobs.ts).
 */
export function createJobLayout(d: Words): JobLayout {
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
    list: (wanted, where) => [
      ...(wanted.state === 'completed' ? [] : [listLive(wanted, where)]),
      ...listEnded(wanted, where),
    ],
    readyKinds: `
SELECT kind, COUNT(*) AS jobs, MIN(sort_at) AS oldest FROM (
  SELECT kind, sort_at FROM @job_queue FORCE INDEX (job_queue_order)
  WHERE namespace = :namespace AND queue = :queue AND state = 'ready'
  ORDER BY sort_rank, sort_at, id LIMIT :limit) first GROUP BY kind`,
    // All of the first SELECT is in the index.
    counts: `
SELECT queue, IF(state = 'scheduled' AND sort_at <= ${d.now}, 'ready', CAST(state AS CHAR)) AS state, COUNT(*) AS jobs,
  MIN(sort_at) AS oldest
FROM @job_queue FORCE INDEX (job_queue_order)
WHERE namespace = :namespace AND NOT (state = 'running' AND sort_at <= ${d.now}) GROUP BY 1, 2
UNION ALL
SELECT q.queue, ${state} AS state, COUNT(*), MIN(q.run_at) FROM ${byOrder} ${request}
WHERE q.namespace = :namespace AND q.state = 'running' AND q.sort_at <= ${d.now} GROUP BY 1, 2
UNION ALL
SELECT queue, 'dead', COUNT(*), 0 FROM @job_dead WHERE namespace = :namespace GROUP BY queue`,
  }

  function listLive({ state: asked, of }: Wanted, where: Where): string {
    const one = asked && kept[asked]
    const isAsked = asked === undefined ? '' : ` AND ${state} = '${asked}'`
    // Of one of our own queues, only the entries of that queue are read.
    if (one === undefined) return live(of === 'own' ? byOrder : '@job_queue q', `${where('q')}${isAsked}`)
    // The index of claims has the jobs of each queue by state, and reads the names of queues quickly.
    const ofState = `(${queueNames('@job_queue', ':namespace')}) names STRAIGHT_JOIN ${byOrder}
  ON q.namespace = names.namespace AND q.queue = names.queue AND q.state = '${one}'`
    if (one === 'running') return live(ofState, `${where('q')}${isAsked}`)
    // Very many may wait, too: only a page of them is read from the table itself.
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

/**
 * Every queue with live jobs. With the default, its two values are the namespace, twice. The index is hopped over from name to name, not read: but
 * only where the namespace is asked for as a range and named among the columns. By `namespace = ?` all of its entries
 * would be read, which takes a fifth of a second for 300,000 jobs.
 */
export function queueNames(queueTable: string, namespace = '?'): string {
  return `SELECT DISTINCT namespace, queue FROM ${queueTable} FORCE INDEX (job_queue_order) 
    WHERE namespace >= ${namespace} AND namespace <= ${namespace}`
}
