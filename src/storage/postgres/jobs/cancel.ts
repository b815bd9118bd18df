import type { CancelAnswer } from '../../../jobs/index.ts'
import { nowMs, perSchema } from '../connection/statement.ts'
import { reclaimThese } from './reclaim.ts'
import { carried, ending } from './settle.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Cancelling. A job that does not run ends at once. The row of a running job may be locked by a user's transaction for long, so the
 * request is written beside it, in `job_cancel`. A job may move between two looks; after a few, there is no such job.
 */
const cancelStatements = perSchema((s) => {
  return {
    cancelIdle: {
      name: 'sb_cancel_idle',
      text: `
WITH gone AS (
  DELETE FROM ${s}.job_queue WHERE namespace = $1 AND id = $2 AND state <> 'running' RETURNING *
),
over AS (
  INSERT INTO ${s}.job_history (${carried}, ${ending})
  SELECT ${carried}, 'cancelled', attempt, hand_back_count, snooze_count, started_at, ${nowMs}, worker_id, NULL, NULL, error, false
  FROM gone
),
heeded AS (DELETE FROM ${s}.job_cancel c USING gone WHERE c.namespace = $1 AND c.job_id = gone.id)
SELECT id FROM gone`,
    },
    // Writes the request; answers also whether the job's lease ran out.
    request: {
      name: 'sb_cancel_request',
      text: `
WITH running AS MATERIALIZED (
  SELECT q.id, q.lease_no, q.lease_ends_at <= ${nowMs} AS lapsed FROM ${s}.job_queue q
  WHERE q.namespace = $1 AND q.id = $2 AND (q.state = 'running') IS TRUE
),
asked AS (
  INSERT INTO ${s}.job_cancel (namespace, job_id, lease_no) SELECT $1, id, lease_no FROM running WHERE NOT lapsed
  ON CONFLICT (namespace, job_id) DO UPDATE SET lease_no = excluded.lease_no
)
SELECT lapsed FROM running`,
    },
    ended: { name: 'sb_ended', text: `SELECT state FROM ${s}.job_history WHERE namespace = $1 AND id = $2` },
  }
})

const mostLooks = 3
const cancelled: CancelAnswer = { state: 'cancelled', cancelRequested: false }

/** Cancels a job, or requests it of the worker that has it. */
export async function cancel(scope: Scope, id: string): Promise<CancelAnswer | undefined> {
  const { cancelIdle, request, ended } = cancelStatements(scope.schemaName)
  for (let looks = 0; looks < mostLooks; looks++) {
    if ((await runIn(scope, cancelIdle, id)).length > 0) return cancelled
    const [running] = await runIn<{ lapsed: boolean }>(scope, request, id)
    if (running?.lapsed === true) {
      await reclaimThese(scope, [id])
      continue
    }
    if (running !== undefined) {
      // It may have become ready again just before the request was visible; then it ends here.
      if ((await runIn(scope, cancelIdle, id)).length > 0) return cancelled
      return { state: 'running', cancelRequested: true }
    }
    const [over] = await runIn<{ state: CancelAnswer['state'] }>(scope, ended, id)
    if (over) return { state: over.state, cancelRequested: false }
  }
  return undefined
}
