import type { ClaimedRecord, ClaimRequest, NewJob } from '../../../jobs/index.ts'
import { createNonce, encodeToken } from '../../token.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import type { Space } from './namespace-memory.ts'

/**
 * A job that is born claimed: it goes straight into a lease's row and never lies in `job_pending`. One commit instead of
 * two. It may not overtake anybody, so the same statement looks whether somebody waits.
 */
export class ClaimedAdder {
  readonly #sender: Sender
  readonly #space: Space

  constructor(sender: Sender, space: Space) {
    this.#sender = sender
    this.#space = space
  }

  async add(job: NewJob, { workerId, leaseMs }: ClaimRequest): Promise<ClaimedRecord | undefined> {
    const nonce = createNonce()
    const { namespace, statements, leases } = this.#space
    const { rows } = await this.#sender.run<{ lease_no: string; claimed_at: string; ends_at: string }>(
      statements.addClaimed,
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
      ],
    )
    const [lease] = rows
    if (lease === undefined) return undefined
    const now = Number(lease.claimed_at)
    const token = { leaseNo: lease.lease_no, nonce }
    const { id, queue, kind, payload, priority, maxAttempts, backoff, timeoutMs, meta } = job
    const record: ClaimedRecord = {
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
      leaseEndsAt: Number(lease.ends_at),
      backoff,
      timeoutMs,
      meta,
      result: null,
      error: null,
      cancelRequested: false,
      cancelIgnored: false,
      token: encodeToken(token),
    }
    this.#sender.onCommit(() => leases.remember(token, [record], leaseMs))
    return record
  }
}

export function addClaimedStatement(s: string): Statement {
  return {
    name: 'sb_add_claimed',
    text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now)
INSERT INTO ${s}.job_lease (lease_no, namespace, nonce, worker_id, claimed_at, ends_at, job_count, jobs)
SELECT nextval('${s.replaceAll("'", "''")}.job_lease_no'), $1, $3, $4, c.now, c.now + $5::bigint, 1,
       ARRAY[ROW ($6, $2, $7, $8, $9::int, NULL, 1, $10::int, 0, 0, c.now, c.now, $11, $12::bigint, NULL, NULL, $13)::${s}.leased_job]
FROM clock c
WHERE NOT EXISTS (SELECT FROM ${s}.job_pending p WHERE p.namespace = $1 AND p.queue = $2 AND p.state = 'ready')
  AND NOT EXISTS (
    SELECT FROM ${s}.job_pending p
    WHERE p.namespace = $1 AND p.queue = $2 AND p.state = 'scheduled' AND p.run_at <= c.now)
  AND NOT EXISTS (SELECT FROM ${s}.job_lease l WHERE l.namespace = $1 AND l.ends_at <= c.now)
  AND NOT EXISTS (
    SELECT FROM ${s}.queue_control q
    WHERE q.namespace = $1 AND q.queue = $2 AND (q.paused_at IS NOT NULL OR q.limits IS NOT NULL))
RETURNING lease_no, claimed_at, ends_at`,
  }
}
