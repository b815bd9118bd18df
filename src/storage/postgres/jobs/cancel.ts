import type { CancelAnswer } from '../../../jobs/index.ts'
import { nowMs, perSchema } from '../connection/statement.ts'
import { reclaimThese } from './reclaim.ts'
import { carried, ending } from './settle.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Cancels jobs. A job that does not run ends at once. A user's transaction may lock the row of a running job for long,
 * so the store writes the request to another table, `job_cancel`. A job may change its state between two statements, so
 * the store tries a few times before it answers that there is no such job.
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
    // Writes the request, and answers whether the job's lease expired.
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

const maxTries = 3
const cancelled: CancelAnswer = { state: 'cancelled', cancelRequested: false }

/** Cancels a job, or requests the cancellation if it runs. */
export async function cancel(scope: Scope, id: string): Promise<CancelAnswer | undefined> {
  const { cancelIdle, request, ended } = cancelStatements(scope.schemaName)
  for (let tries = 0; tries < maxTries; tries++) {
    if ((await runIn(scope, cancelIdle, id)).length > 0) return cancelled
    const [running] = await runIn<{ lapsed: boolean }>(scope, request, id)
    if (running?.lapsed === true) {
      await reclaimThese(scope, [id])
      continue
    }
    if (running !== undefined) {
      // The job may have become ready again just before the request was visible: cancel it now.
      if ((await runIn(scope, cancelIdle, id)).length > 0) return cancelled
      return { state: 'running', cancelRequested: true }
    }
    const [over] = await runIn<{ state: CancelAnswer['state'] }>(scope, ended, id)
    if (over) return { state: over.state, cancelRequested: false }
  }
  return undefined
}
