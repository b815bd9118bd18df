import type { CancelAnswer, FinalState } from '../../../jobs/index.ts'
import type { Moment } from '../connection/connection.ts'
import { endJobs } from './end-job.ts'
import { takeBackIfLapsed } from './reclaim.ts'

/** Cancels a job in its state at `now`, in the open transaction. */
export function cancelJob(moment: Moment, id: string): CancelAnswer | undefined {
  const { connection, namespace } = moment
  takeBackIfLapsed(moment, id)
  const live = findLive(moment, id)
  if (!live) {
    const ended = findEnded(moment, id)
    return ended && { state: ended.state, cancelRequested: false }
  }
  if (live.state === 'running') {
    connection.run(
      'INSERT OR REPLACE INTO job_cancel (namespace, job_id, lease_no) VALUES (?1, ?2, ?3)',
      namespace,
      id,
      live.lease_no,
    )
    return { state: 'running', cancelRequested: true }
  }
  endJobs(moment, [{ row: live.row, state: 'cancelled', cancelRequested: false }])
  return { state: 'cancelled', cancelRequested: false }
}

interface LiveRow {
  readonly row: number
  readonly state: string
  readonly lease_no: number
}

export function findLive({ connection, namespace }: Moment, id: string): LiveRow | undefined {
  return connection.get<LiveRow>(
    'SELECT rowid AS row, state, lease_no FROM job_queue WHERE namespace = ?1 AND id = ?2',
    namespace,
    id,
  )
}

interface EndedRow {
  readonly state: FinalState
  readonly queue: string
  readonly unique_key: string | null
  readonly meta: string | null
}

export function findEnded({ connection, namespace }: Moment, id: string): EndedRow | undefined {
  return connection.get<EndedRow>(
    'SELECT state, queue, unique_key, meta FROM job_history WHERE namespace = ?1 AND id = ?2',
    namespace,
    id,
  )
}
