import type { CancelAnswer, JobState } from '../../../jobs/index.ts'
import { columns } from '../columns.ts'
import type { Dialect } from '../dialect.ts'
import { last, type Operation, one, operation, type Procedure, type Result, run } from '../procedure.ts'
import { type Bound, statement } from '../statement.ts'

/**
 * Cancels jobs. A job that does not run ends at once. A user's transaction may lock the row of a running job for long,
 * so a cancellation never waits for it: it writes the request to another table, `job_cancel`.
 */
export interface ReachedJob {
  readonly state: JobState
  readonly leaseNo: number
  /** Whether it runs with an expired lease. */
  readonly isLapsed: boolean
  readonly isEnded: boolean
  /** Whether this transaction has locked its row. Another transaction may have locked the row of a live job. */
  readonly isLocked: boolean
}

const found = columns<Omit<ReachedJob, 'isLocked'>>({
  ...{ state: 'text', leaseNo: 'integer', isLapsed: 'boolean', isEnded: 'boolean' },
})

const ofJob = { namespace: 'text', id: 'text' } as const

const selectLive = (d: Dialect) => `
SELECT ${d.text('q.state')} AS state, q.lease_no, q.state = 'running' AND q.lease_ends_at <= ${d.now} AS is_lapsed,
  FALSE AS is_ended
FROM @job_queue q WHERE q.namespace = :namespace AND q.id = :id`

const lockLive = statement('job_reach', ofJob, (d) => `${selectLive(d)} ${d.skipLocked}`)

/** Reads both tables at one moment, so that a job that moves from one to the other is never missed. */
const seeJob = statement(
  'job_see',
  ofJob,
  (d) => `${selectLive(d)}
UNION ALL
SELECT ${d.text('h.state')}, h.lease_no, FALSE, TRUE FROM @job_history h WHERE h.namespace = :namespace AND h.id = :id`,
)

/** The statements that find a job, and lock its row if it is live and no other transaction has locked it. */
export function reachJob(namespace: string, id: string): readonly [Bound, Bound] {
  return [lockLive({ namespace, id }), seeJob({ namespace, id })]
}

/** The job that `reachJob` found. */
export function readReached([locked, seen]: readonly Result[]): ReachedJob | undefined {
  const [row = seen!.rows[0]] = locked!.rows
  return row === undefined ? undefined : { ...found.decode(row), isLocked: locked!.rows.length > 0 }
}

const copyCancelled = statement(
  'job_end_idle',
  { namespace: 'text', rows: { id: 'text', error: 'text | null' } },
  (d) => {
    const carried = d.jobs.carried.split(',').map((column) => column.trim())
    return `
INSERT INTO @job_history (${carried.join(', ')}, state, finished_at, error, cancel_ignored)
SELECT ${carried.map((column) => `q.${column}`).join(', ')}, 'cancelled', ${d.now}, coalesce(v.error, q.error), FALSE
FROM :rows ${d.thenJoin('@job_queue', 'q', 'q.namespace = :namespace AND q.id = v.id')}`
  },
)

const removeLive = statement('job_leave_queue', { namespace: 'text', rows: { id: 'text' } }, (d) =>
  d.deleteByRows('@job_queue', 't.namespace = :namespace AND t.id = v.id'),
)

const removeRequests = statement(
  'job_forget_requests',
  { namespace: 'text', ids: 'text[]' },
  () => `DELETE FROM @job_cancel WHERE namespace = :namespace AND job_id IN (:ids)`,
)

/** Deletes the rows and the cancellation requests of live jobs. */
export function leaveQueue(namespace: string, ids: readonly string[]): readonly Bound[] {
  return [removeLive({ namespace, rows: ids.map((id) => ({ id })) }), forgetRequests(namespace, ids)]
}

export function forgetRequests(namespace: string, ids: readonly string[]): Bound {
  return removeRequests({ namespace, ids })
}

/** Ends jobs that do not run as cancelled. The caller has locked their rows. An error that is null stays the job's. */
export function endIdle(
  namespace: string,
  ends: readonly { readonly id: string; readonly error: string | null }[],
): readonly Bound[] {
  const ids = ends.map(({ id }) => id)
  return [copyCancelled({ namespace, rows: ends }), ...leaveQueue(namespace, ids)]
}

const writeRequest = statement('job_request_cancel', { ...ofJob, leaseNo: 'integer' }, (d) =>
  d.upsert({
    ...{ into: '@job_cancel', columns: 'namespace, job_id, lease_no', key: 'namespace, job_id' },
    source: 'VALUES (:namespace, :id, :leaseNo)',
    set: { lease_no: 'new.lease_no' },
  }),
)

/**
 * `busy`: nothing was written, because the job has an expired lease, or another transaction is claiming or ending it.
 * Null: there is no such job.
 */
export type CancelStep = CancelAnswer | { readonly busy: string } | null

/** Cancels a job, or requests its cancellation if it runs. */
export const cancelJob: Operation<readonly [namespace: string, id: string], CancelStep> = operation({
  name: 'cancel a job',
  *procedure(namespace: string, id: string): Procedure<CancelStep> {
    const job = readReached(yield* run(...reachJob(namespace, id)))
    if (job === undefined) return null
    const { state, leaseNo, isEnded, isLapsed, isLocked } = job
    if (isEnded) return { state, cancelRequested: false }
    if (state === 'running' && !isLapsed) {
      yield* last(run(writeRequest({ namespace, id, leaseNo })))
      return { state, cancelRequested: true }
    }
    if (state === 'running' || !isLocked) return { busy: id }
    yield* last(run(...endIdle(namespace, [{ id, error: null }])))
    return { state: 'cancelled', cancelRequested: false }
  },
})

/** Whether a job waits for its turn: a cancellation that found it running was too early for its request. */
export const isIdle: Operation<readonly [namespace: string, id: string], boolean> = operation({
  name: 'look whether a job is idle',
  isRead: true,
  *procedure(namespace: string, id: string) {
    const row = yield* one(seeJob({ namespace, id }))
    if (row === undefined) return false
    const { state, isEnded } = found.decode(row)
    return state !== 'running' && !isEnded
  },
})
