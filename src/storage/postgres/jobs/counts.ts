import { type EstimateJobs, oldestPriorities } from '../../sql/job-counts.ts'
import type { JobLayout, JobWalk, LayoutDialect } from '../../sql/job-layout.ts'
import type { Sender } from '../connection/sender.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { hashOfId, isInSample, sampleShare } from '../schema.ts'

/** How many entries of the sample an estimate reads. The error is about 1/√400, or 5 %. */
const sampleRows = 400

/** Each state has its index, in the order of queues. */
export function createWalks({ now }: LayoutDialect): JobLayout['walks'] {
  const live: Pick<JobWalk, 'from' | 'runAt'> = { from: '@job_queue q', runAt: 'q.run_at' }
  return {
    ready: {
      ...{ ...live, where: `q.state = 'ready'`, state: { is: 'ready' } },
      kinds: {
        ready: { where: 'TRUE', orderBy: 'q.queue' },
      },
    },
    scheduled: {
      ...{ ...live, where: `q.state = 'scheduled'` },
      state: { by: `CASE WHEN q.run_at <= ${now} THEN 'ready' ELSE 'scheduled' END` },
      kinds: {
        due: { where: `q.run_at <= ${now}`, orderBy: 'q.run_at', state: { is: 'ready' } },
        scheduled: { where: `q.run_at > ${now}`, orderBy: 'q.run_at', state: { is: 'scheduled' } },
      },
    },
    waiting: {
      ...{ ...live, where: `q.state = 'waiting' AND q.queue <> ''`, state: { is: 'waiting' } },
      kinds: { waiting: { where: 'TRUE', orderBy: 'q.queue' } },
    },
    running: {
      ...{ ...live, where: `q.state = 'running'` },
      state: {
        by: `CASE WHEN q.lease_ends_at > ${now} THEN 'running'
        WHEN EXISTS (SELECT FROM @job_cancel c WHERE c.namespace = q.namespace AND c.job_id = q.id) THEN 'cancelled'
        WHEN q.attempt < q.max_attempts THEN 'ready' ELSE 'dead' END`,
      },
      kinds: {
        expired: { where: `q.lease_ends_at <= ${now}`, orderBy: 'q.lease_ends_at' },
        running: { where: `q.lease_ends_at > ${now}`, orderBy: 'q.lease_ends_at', state: { is: 'running' } },
      },
    },
    dead: {
      ...{ from: '@job_history q', runAt: 'NULL::bigint', state: { is: 'dead' } },
      where: `q.state = 'dead' AND q.state <> 'completed'`,
      kinds: { dead: { where: 'TRUE', orderBy: 'q.id' } },
    },
  }
}

const stored: Readonly<Record<string, string>> = {
  ...{ ready: 'ready', waiting: 'waiting', due: 'scheduled', scheduled: 'scheduled' },
  ...{ expired: 'running', running: 'running', dead: 'dead' },
}

/**
 * Estimates from the sample, one of `sampleShare` jobs in the order of a hash of their ids. Hashes are spread evenly:
 * if the first entries reach to a tenth of the range of hashes, the sample has ten times as many.
 */
export function createEstimate(
  sender: Sender,
  { schemaName, namespace }: { readonly schemaName: string; readonly namespace: string },
): EstimateJobs {
  const { live, dead, oldest } = statementsOf(schemaName)
  return async (queue, kind) => {
    const values = [namespace, queue, stored[kind], kind]
    const asked = sender.run<{ jobs: number }>(kind === 'dead' ? dead : live, values)
    if (kind !== 'ready') return { jobs: (await asked).rows[0]!.jobs }
    const [{ rows }, first] = await Promise.all([
      asked,
      sender.run<{ oldest: string | null }>(oldest, [namespace, queue]),
    ])
    return { jobs: rows[0]!.jobs, oldest: Number(first.rows[0]!.oldest ?? Infinity) }
  }
}

const statementsOf = perSchema((s) => {
  const isOfKind = `CASE $4::text WHEN 'due' THEN run_at <= (SELECT ${nowMs}) WHEN 'scheduled' THEN run_at > (SELECT ${nowMs})
    WHEN 'expired' THEN lease_ends_at <= (SELECT ${nowMs}) WHEN 'running' THEN lease_ends_at > (SELECT ${nowMs}) ELSE TRUE END`
  const estimate = (name: string, table: string, isState: string, is: string): Statement => ({
    name,
    text: `
SELECT coalesce(round(sum(is_of_kind::int)::float8 * ${sampleShare} * CASE WHEN count(*) < ${sampleRows} THEN 1
  ELSE 1 / ((max(hash)::float8 + 9223372036854775808) / 18446744073709551616) END), 0) AS jobs
FROM (
  SELECT ${hashOfId} AS hash, ${is} AS is_of_kind FROM ${s}.${table}
  WHERE namespace = $1 AND queue = $2 AND ${isState} AND ${isInSample}
  ORDER BY ${hashOfId} LIMIT ${sampleRows}) first`,
  })
  const place = '(limit_key IS NOT NULL), (-priority::bigint)'
  const ready = `SELECT ${place}, run_at FROM ${s}.job_queue WHERE namespace = $1 AND queue = $2 AND state = 'ready'`
  return {
    // Steps from priority to priority along the index of ready jobs, where jobs with a limit key come last.
    oldest: {
      name: 'sb_oldest_ready',
      text: `
WITH RECURSIVE first (has_key, rank, run_at, number) AS (
  (SELECT *, 1 FROM (${ready} ORDER BY ${place}, run_at LIMIT 1) top)
  UNION ALL
  SELECT next.*, number + 1 FROM first CROSS JOIN LATERAL (
    ${ready} AND (${place}) > (first.has_key, first.rank) ORDER BY ${place}, run_at LIMIT 1) next
  WHERE number < ${oldestPriorities}
) SELECT min(run_at) AS oldest FROM first`,
    },
    live: estimate('sb_estimate', 'job_queue', 'state = $3', isOfKind),
    dead: estimate(
      'sb_estimate_dead',
      'job_history',
      `state = 'dead' AND state = $3`,
      '$4::text IS NOT NULL',
    ),
  }
})
