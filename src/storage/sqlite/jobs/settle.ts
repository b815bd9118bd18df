import type { Verdict } from '../../../jobs/index.ts'
import { leavesAttempt } from '../../attempt-error.ts'
import type { Moment } from '../connection/connection.ts'
import { type End, endJobs, keepAttempt } from './end-job.ts'
import { findHeld } from './renew.ts'

/**
 * Writes verdicts whose lease is live at `now`, and returns for each whether it was written. If two verdicts name the
 * same lease, the first one wins.
 */
export function settleAll(moment: Moment, verdicts: readonly Verdict[]): readonly boolean[] {
  const { connection, now } = moment
  const helds = findHeld(moment, verdicts)
  const ends: End[] = []
  const settled = new Set<number>()
  const took = verdicts.map((verdict, i) => {
    const held = helds[i]
    if (!held || settled.has(held.row)) return false
    settled.add(held.row)
    const { state, attempt, handBackCount, snoozeCount, result, error } = verdict
    const { row, cancelRequested } = held
    const startedAt = verdict.ranMs === null ? undefined : now - verdict.ranMs
    if (leavesAttempt(verdict)) {
      const outcome = state === 'dead' ? 'dead' : 'failed'
      keepAttempt(connection, row, { outcome, attempt, startedAt, endedAt: now, error: error! })
    }
    const end = { row, attempt, handBackCount, snoozeCount, startedAt, result, error, cancelRequested }
    if (state !== 'ready' && state !== 'scheduled') ends.push({ ...end, state })
    else if (cancelRequested) ends.push({ ...end, state: 'cancelled' })
    else bringBack(moment, row, verdict, startedAt)
    return true
  })
  endJobs(moment, ends)
  return took
}

/** About twenty tokens: enough for a job's recent attempts. */
const keptTokenChars = 400

function bringBack(
  { connection, now }: Moment,
  row: number,
  { state, attempt, handBackCount, snoozeCount, delayMs, error }: Verdict,
  startedAt: number | undefined,
): void {
  const later = state === 'scheduled' && delayMs > 0
  connection.run(
    `UPDATE job_queue
     SET state = ?2, attempt = ?3, hand_back_count = ?4, snooze_count = ?5, run_at = coalesce(?6, run_at),
         started_at = coalesce(?7, started_at), error = ?8, lease_ends_at = NULL, updated_at = ?9,
         settled_tokens = substr(lease_no || '.' || lease_nonce || ' ' || settled_tokens, 1, ${keptTokenChars})
     WHERE rowid = ?1`,
    row,
    later ? 'scheduled' : 'ready',
    attempt,
    handBackCount,
    snoozeCount,
    state === 'scheduled' ? now + delayMs : null,
    startedAt ?? null,
    error,
    now,
  )
}
