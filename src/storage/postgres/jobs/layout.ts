import type { JobState } from '../../../jobs/index.ts'
import { isOwn } from '../../own-queue.ts'
import { type JobLayout, selectEnded, type Wanted, type Where, type Words } from '../../sql/job-layout.ts'
import { nowMs } from '../connection/columns.ts'

type Place = 'pending' | 'history' | 'leased'

const aliases: Readonly<Record<Place, string>> = { pending: 'p', history: 'h', leased: 'q' }

/** In which states a job may be there. */
const statesIn: Readonly<Record<Place, readonly JobState[]>> = {
  pending: ['ready', 'scheduled', 'waiting'],
  history: ['completed', 'dead', 'cancelled'],
  leased: ['running', 'ready', 'dead', 'cancelled'],
}

const pending = `
SELECT p.id, p.queue, p.kind, p.payload, p.priority, p.unique_key,
  CASE WHEN p.state = 'waiting' THEN 'waiting' WHEN p.run_at <= ${nowMs} THEN 'ready' ELSE 'scheduled' END AS state,
  p.attempt, p.max_attempts, p.hand_back_count, p.snooze_count, p.run_at, p.created_at, p.started_at,
  NULL::bigint AS finished_at, p.worker_id, NULL::bigint AS lease_ends_at, p.backoff, p.timeout_ms, p.meta, p.result, p.error,
  false AS cancel_requested, false AS cancel_ignored
FROM @job_pending p`

/** The view `job_queue` shows what leases hold, each job as what it is at this moment. */
const leased = `
SELECT q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, q.state, q.attempt, q.max_attempts,
  q.hand_back_count, q.snooze_count, q.run_at, q.created_at, q.started_at,
  CASE WHEN q.state IN ('dead', 'cancelled') THEN q.lease_ends_at END AS finished_at, q.worker_id,
  CASE WHEN q.state = 'running' THEN q.lease_ends_at END AS lease_ends_at, q.backoff, q.timeout_ms, q.meta, q.result,
  CASE WHEN q.state = 'dead' THEN :expiredError ELSE q.error END AS error,
  q.cancel_requested AND q.state = 'running' AS cancel_requested, false AS cancel_ignored
FROM @job_queue q`

/** Jobs are in three places: those that wait, those that have ended, and those in a lease. */
export function createJobLayout(d: Words): JobLayout {
  const selects: Readonly<Record<Place, string>> = { pending, history: selectEnded(d), leased }
  const selectFrom = (place: Place, where: Where) =>
    `${selects[place]} WHERE ${where(aliases[place])}${place === 'leased' ? ' AND q.lease_no IS NOT NULL' : ''}`
  /** A job that waits for its time alone is what its time says. */
  const pendingStates: Partial<Record<JobState, string>> = {
    waiting: `p.state = 'waiting'`,
    ready: `p.state <> 'waiting' AND p.run_at <= ${d.now}`,
    scheduled: `p.state <> 'waiting' AND p.run_at > ${d.now}`,
  }
  const stateIn = (place: Place, state: JobState) => {
    if (place === 'pending') return pendingStates[state]!
    if (place === 'leased') return `q.state = '${state}'`
    // A partial index is used where its condition is said word for word.
    return state === 'completed' ? `h.state = 'completed'` : `h.state = '${state}' AND h.state <> 'completed'`
  }
  return {
    liveTable: '@job_pending',
    // Most jobs that are looked for do not run, and looking into leases costs more.
    findQuickly: (where) => (['pending', 'history'] as const).map((place) => selectFrom(place, where)),
    find: (where) => (['pending', 'history', 'leased'] as const).map((place) => selectFrom(place, where)),
    list: ({ state, of }: Wanted, where) =>
      (['pending', 'history', 'leased'] as const)
        .filter((place) => state === undefined || statesIn[place].includes(state))
        .map((place) =>
          [
            selectFrom(place, where),
            ...(of === 'own' && place !== 'leased' ? [isOwn(`${aliases[place]}.queue`)] : []),
            ...(state === undefined ? [] : [stateIn(place, state)]),
          ].join(' AND '),
        ),
    // Queues alone are groups, and the time is read once: else no planner would share a million rows among its workers.
    counts: `
WITH pending AS (
  SELECT queue, count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE ${isDue(d)}) AS ready,
    count(*) FILTER (WHERE state <> 'waiting') AS timed, min(run_at) FILTER (WHERE ${isDue(d)}) AS oldest
  FROM @job_pending WHERE namespace = :namespace GROUP BY queue
)
SELECT queue, each.state, each.jobs, each.oldest
FROM pending CROSS JOIN LATERAL (VALUES
  ('waiting', waiting, NULL::bigint), ('ready', ready, oldest), ('scheduled', timed - ready, NULL)) each (state, jobs, oldest)
WHERE each.jobs > 0
UNION ALL
SELECT queue, state, count(*), min(run_at) FROM @job_queue
WHERE namespace = :namespace AND lease_no IS NOT NULL GROUP BY 1, 2
UNION ALL
SELECT queue, state, count(*), NULL FROM @job_history WHERE namespace = :namespace AND state = 'dead' GROUP BY 1, 2`,
  }
}

const isDue = (d: Words) => `state <> 'waiting' AND run_at <= ${d.now}`
