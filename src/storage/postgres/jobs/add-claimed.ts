import type { ClaimedRecord, ClaimRequest, NewJob } from '../../../jobs/index.ts'
import { createNonce, encodeToken } from '../../token.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { storableKey } from './add.ts'
import type { Scope } from './space.ts'

/**
 * Adds and claims a job in one statement: one commit instead of two. The job must not overtake another one, so the
 * statement does nothing if the queue has a job that could run.
 */
export async function addClaimed(
  { sender, namespace, schemaName }: Scope,
  job: NewJob,
  { workerId, leaseMs }: ClaimRequest,
): Promise<ClaimedRecord | undefined> {
  const nonce = createNonce()
  const { rows } = await sender.run<{ started_at: string; lease_ends_at: string }>(
    addClaimedStatement(schemaName),
    [
      namespace,
      job.queue,
      nonce,
      workerId,
      leaseMs,
      job.id,
      job.kind,
      job.payload,
      job.priority,
      job.maxAttempts,
      job.backoff,
      job.timeoutMs,
      job.meta,
      storableKey(job.meta),
    ],
  )
  const [lease] = rows
  if (lease === undefined) return undefined
  const now = Number(lease.started_at)
  const { id, queue, kind, payload, priority, maxAttempts, backoff, timeoutMs, meta } = job
  return {
    id,
    queue,
    kind,
    payload,
    priority,
    uniqueKey: null,
    state: 'running',
    attempt: 1,
    maxAttempts,
    handBackCount: 0,
    snoozeCount: 0,
    runAt: now,
    createdAt: now,
    startedAt: now,
    finishedAt: null,
    workerId,
    leaseEndsAt: Number(lease.lease_ends_at),
    backoff,
    timeoutMs,
    meta,
    result: null,
    error: null,
    cancelRequested: false,
    cancelIgnored: false,
    token: encodeToken({ leaseNo: '1', nonce }),
  }
}

const addClaimedStatement = perSchema((s): Statement => {
  const first = (state: string, condition = '') => `
    SELECT FROM ${s}.job_queue p WHERE p.namespace = $1 AND p.queue = $2 AND p.state = '${state}' ${condition}`
  return {
    name: 'sb_add_claimed',
    text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now)
INSERT INTO ${s}.job_queue (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, run_at, created_at,
  updated_at, started_at, worker_id, lease_no, lease_nonce, lease_ends_at, backoff, timeout_ms, meta, limit_key)
SELECT $1, $6, $2, $7, $8, $9::int, 'running', 1, $10::int, c.now, c.now, c.now, c.now, $4, 1, $3, c.now + $5::bigint, $11,
       $12::bigint, $13, $14
FROM clock c
WHERE NOT EXISTS (${first('ready')})
  AND NOT EXISTS (${first('scheduled', 'AND p.run_at <= c.now')})
  AND NOT EXISTS (${first('running', 'AND p.lease_ends_at <= c.now')})
  AND NOT EXISTS (
    SELECT FROM ${s}.queue_control q
    WHERE q.namespace = $1 AND q.queue = $2 AND (q.paused_at IS NOT NULL OR q.limits IS NOT NULL))
RETURNING started_at, lease_ends_at`,
  }
})
