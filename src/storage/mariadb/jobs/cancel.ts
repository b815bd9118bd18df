import type { CancelAnswer, JobState } from '../../../jobs/index.ts'
import { begin, type Call, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { toCancelled } from './history.ts'
import { reclaimThese } from './reclaim.ts'

/**
 * Cancels jobs. It never waits for the row of a running job, because a user's transaction may lock it for long. It
 * writes the request to a separate table, `job_cancel`.
 */
interface StoredRow {
  readonly state: JobState
  readonly lease_no: number
  readonly lapsed: number
}

const stored = `CAST(state AS CHAR) AS state, lease_no, state = 'running' AND lease_ends_at <= ${nowMs} AS lapsed`

/** Finds and locks the job's row in the queue. Otherwise it shows that the row is locked, or that the job has ended. */
export async function reach(
  { tables, namespace }: Store,
  call: Call,
  id: string,
): Promise<{ locked?: StoredRow; seen?: StoredRow; ended?: JobState }> {
  const [, [locked], [seen]] = (await call.packet([
    begin,
    [
      `SELECT ${stored} FROM ${tables.queue} WHERE namespace = ? AND id = ? FOR UPDATE SKIP LOCKED`,
      [namespace, id],
    ],
    // One statement reads both tables at one moment, so that a job that another call retries meanwhile is in one of
    // them.
    [
      `SELECT ${stored}, 0 AS ended FROM ${tables.queue} WHERE namespace = ? AND id = ?
        UNION ALL
        SELECT CAST(state AS CHAR), 0, 0, 1 FROM ${tables.history} WHERE namespace = ? AND id = ?`,
      [namespace, id, namespace, id],
    ],
  ])) as [unknown, StoredRow[], (StoredRow & { readonly ended: number })[]]
  if (locked) return { locked }
  if (seen?.ended) return { ended: seen.state }
  return seen ? { seen } : {}
}

export async function cancel(store: Store, id: string): Promise<CancelAnswer | undefined> {
  const { calls } = store
  const answer = await calls.until('cancel a job', (deadline) =>
    calls.run(
      'cancel a job',
      async (call): Promise<CancelAnswer | 'none' | undefined> => {
        const { locked, seen, ended } = await reach(store, call, id)
        if (locked && locked.state !== 'running') {
          await call.packet([...toCancelled(store, [id]), commit])
          return { state: 'cancelled', cancelRequested: false }
        }
        const running = locked ?? seen
        // Locked, but not running: another call is claiming it or putting it back, or its lease has expired.
        if (ended === undefined && running?.state === 'running' && !running.lapsed) {
          await call.packet([request(store, id, running.lease_no), commit])
          return { state: 'running', cancelRequested: true }
        }
        await call.packet([commit])
        if (ended !== undefined) return { state: ended, cancelRequested: false }
        if (running === undefined) return 'none'
        if (locked?.lapsed) await reclaimThese(store, [id])
        return undefined
      },
      deadline,
    ),
  )
  return answer === 'none' ? undefined : answer
}

function request({ tables, namespace }: Store, id: string, leaseNo: number): Statement {
  return [
    `INSERT INTO ${tables.cancel} (namespace, job_id, lease_no) VALUES (?, ?, ?)
      ON DUPLICATE KEY UPDATE lease_no = VALUES(lease_no)`,
    [namespace, id, leaseNo],
  ]
}
